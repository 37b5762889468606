from dataclasses import dataclass


@dataclass
class Settings:
    brokers: str = "kafka-1:9092,kafka-2:9092"
    topic: str = "payments"
    good: str = "s3a://lake/payments/good"
    bad: str = "s3a://lake/payments/bad"
    checkpoint: str = "s3a://lake/_checkpoints/payments"
    currencies: tuple = ("EUR", "USD", "GBP")


settings = Settings()
