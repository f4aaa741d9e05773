"""The customers of the CRM, each in its best known form."""

from tidemark.dedup import survivors


def model(dbt, session):
    dbt.config(materialized="table")
    return survivors(
        dbt.ref("cur_crm__customer_master"),
        dbt.ref("cur_crm__customer_address"),
        key="customer_id",
        audited_at="row_audit_ts",
        email="email_id",
        name=("first_name", "last_name"),
        place="city",
        changed_at="_changed_at",
    )
