"""One run of Tidemark on AWS Glue, every hour. Copy it into Airflow's folder of DAGs.

Airflow's run id is the run's id in all logs and tables. Of Airflow it needs the amazon provider.
"""

from datetime import UTC, datetime, timedelta

from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.sdk import DAG

with DAG(
    dag_id="tidemark",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # A second run would only wait for the first one's lease.
    max_active_runs=1,
    params={"job": "tidemark"},
    doc_md=__doc__,
):
    GlueJobOperator(
        task_id="run",
        job_name="{{ params.job }}",
        script_args={"--run-id": "{{ run_id }}"},
        wait_for_completion=True,
        stop_job_run_on_kill=True,
        # What landed is landed, what failed is tried again: a second try does what is missing.
        retries=1,
        retry_delay=timedelta(minutes=5),
        execution_timeout=timedelta(hours=4),
    )
