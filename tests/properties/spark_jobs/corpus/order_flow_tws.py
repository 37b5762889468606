import logging

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

log = logging.getLogger("orders")


class OrderFlow(StatefulProcessor):
    def init(self, handle):
        self.amounts = handle.getListState("amounts", "amount DOUBLE")

    def handleInputRows(self, key, rows, timerValues):
        for row in rows:
            try:
                self.amounts.appendValue(row.amount)
            except Exception as error:
                log.error("order %s: %s", key[0], error)
        yield Row(order_id=key[0], changes=len(list(self.amounts.get())))

    def close(self):
        pass


class OrderJob:
    def __init__(self):
        self.spark = SparkSession.builder.appName("order-flow").getOrCreate()

    def run(self):
        orders = self.spark.readStream.schema("order_id STRING, status STRING, amount DOUBLE").json("/landing/orders")
        flow = orders.where("order_id IS NOT NULL").groupBy("order_id").transformWithState(
            OrderFlow(), "order_id STRING, changes INT", "Update", "None"
        )
        query = flow.writeStream.outputMode("update").format("console").option("checkpointLocation", "/chk/orders").start()
        query.awaitTermination()


if __name__ == "__main__":
    OrderJob().run()
