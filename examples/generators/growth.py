"""Month-end exports of two departments: the sales pipeline and the metrics of marketing (S12)."""

import random
from datetime import date, timedelta

from generators import Days, as_csv

PIPELINE = [
    "date", "salesperson", "lead_name", "segment", "region", "target_close",
    "forecasted_monthly_revenue", "opportunity_stage", "weighted_revenue",
    "closed_opportunity", "active_opportunity", "latest_status_entry",
]  # fmt: skip
METRICS = ["date", "new_visitors", "trial_signups", "paid_conversion", "spend"]
STAGES = {"Lead": 0.1, "Proposal": 0.4, "Negotiation": 0.7, "Closed Won": 1.0, "Closed Lost": 0.0}
LEADS = ["Acorn Foods", "Bluebird Air", "Comet Labs", "Delta Mills", "Everest Gear", "Fjord Line"]
START, END = date(2022, 1, 1), date(2022, 3, 31)


def pipeline() -> list[list[object]]:
    """What the sales sheet says, week after week."""
    made_up = random.Random(12)
    rows: list[list[object]] = []
    for week in range(13):
        day = START + timedelta(weeks=week)
        for number, lead in enumerate(LEADS):
            stage = list(STAGES)[min(4 if number == 5 else 3, week // 3)]
            revenue = 4000 + 1500 * number + made_up.randrange(0, 900, 100)
            closed = stage.startswith("Closed")
            rows.append(
                [
                    day,
                    ["Mina Park", "Tom Okoro"][number % 2],
                    lead,
                    ["Enterprise", "SMB"][number % 2],
                    ["US East", "US West", "EMEA"][number % 3],
                    END + timedelta(days=10 * number),
                    f"${revenue:,}",
                    stage,
                    f"${revenue * STAGES[stage]:,.2f}",
                    str(closed).upper(),
                    str(not closed).upper(),
                    str(week == 12).upper(),
                ]
            )
    return rows


def metrics() -> list[list[object]]:
    """A day of marketing a line."""
    made_up = random.Random(21)
    rows: list[list[object]] = []
    for number in range((END - START).days + 1):
        visitors = made_up.randint(200, 900)
        trials = visitors // made_up.randint(12, 30)
        paid = trials // made_up.randint(3, 9)
        spend = f"{made_up.randint(5000, 20000) / 100:.2f}"
        rows.append([START + timedelta(days=number), visitors, trials, paid, spend])
    return rows


def days() -> Days:
    """January and February; then everything up to March, with a correction of January."""
    sales, marketing = pipeline(), metrics()

    def until(rows: list[list[object]], last: date) -> list[list[object]]:
        return [row for row in rows if str(row[0]) <= str(last)]

    def export(last: date) -> dict[str, bytes]:
        return {
            f"growth/sales_pipeline/{last}.csv": as_csv([PIPELINE, *until(sales, last)]),
            f"growth/marketing_metrics/{last}.csv": as_csv([METRICS, *until(marketing, last)]),
        }

    first = export(date(2022, 1, 31)) | export(date(2022, 2, 28))
    marketing[4][3] = 9
    return {1: first, 2: export(END)}
