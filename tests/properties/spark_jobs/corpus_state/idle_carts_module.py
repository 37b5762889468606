import kept_articles
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StatefulProcessor

spark = SparkSession.builder.appName("idle-carts").getOrCreate()

DAY_MS = 86_400_000


class Carts(StatefulProcessor):
    """Counts what is put into a cart, and tells of one that nothing comes to any more."""

    def init(self, handle):
        self.handle = handle
        self.items = handle.getValueState("items", "n LONG", ttlDurationMs=DAY_MS)

    def handleInputRows(self, key, rows, timerValues):
        n = self.items.get()[0] if self.items.exists() else 0
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        articles = [row.article for row in rows]
        for article in articles:
            if article == "paid":
                continue
            n += 1
            kept_articles.ARTICLES.setdefault(key, set()).add(article)
        if "paid" in articles:
            yield from self.left(key, n, idle=False)
            return
        self.items.update((n,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 1)

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        yield from self.left(key, self.items.get()[0], idle=True)

    def left(self, key, n, idle):
        yield Row(cart=key[0], items=n, articles=len(kept_articles.ARTICLES.get(key, ())), idle=idle)
        self.items.clear()
        kept_articles.ARTICLES.pop(key, None)

    def close(self):
        pass


def write(df, batch_id):
    df.write.mode("overwrite").parquet(f"/lake/carts/batch={batch_id}")


feed = [[("a", "tea"), ("a", "cup"), ("a", "tea"), ("b", "tea")], [("a", "jam"), ("a", "paid")]]
puts = spark.readStream.schema("cart STRING, article STRING").json("/landing/carts").where("cart IS NOT NULL")
carts = puts.groupBy("cart").transformWithState(
    Carts(), "cart STRING, items LONG, articles INT, idle BOOLEAN", "Update", "ProcessingTime"
)
carts.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", "/checkpoints/carts").start().awaitTermination()
