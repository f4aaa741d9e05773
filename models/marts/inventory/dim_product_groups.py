"""Products that were entered twice under different spellings, grouped."""

from tidemark.dedup import group_similar


def model(dbt, session):
    dbt.config(materialized="table")
    products = dbt.ref("cur_inventory__products").select("product_id", "product_name", "category")
    return group_similar(products, key="product_id", text="product_name", within=["category"])
