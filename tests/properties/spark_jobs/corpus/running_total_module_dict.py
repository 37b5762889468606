import pandas as pd
from pyspark.sql import SparkSession

totals = {}


def add_totals(frames):
    for frame in frames:
        running = []
        for account, amount in zip(frame["account"], frame["amount"]):
            totals[account] = totals.get(account, 0) + int(amount)
            running.append(totals[account])
        yield pd.DataFrame({"account": frame["account"], "amount": frame["amount"], "total": running})


spark = SparkSession.builder.appName("running-totals").getOrCreate()
moves = spark.readStream.schema("account STRING, amount INT").json("/landing/moves").na.drop()
query = (
    moves.mapInPandas(add_totals, "account STRING, amount INT, total LONG")
    .writeStream.format("delta")
    .option("checkpointLocation", "/lake/_checkpoints/totals")
    .start("/lake/totals")
)
query.awaitTermination()
