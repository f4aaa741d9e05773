"""A partner's price lists: one keeps the agreement, the next breaks it, then it is mended (S13)."""

from generators import Days, as_csv

COLUMNS = ["article_id", "article_name", "price", "currency", "price_from", "price_until"]
ARTICLES = ["Rope 10 mm", "Shackle", "Cleat", "Fender", "Buoy", "Winch handle", "Pulley", "Anchor"]


def price_list(month: int, *, rise: float) -> list[list[object]]:
    """Thirty-two articles with prices of a month."""
    last = {5: 31, 6: 30}[month]
    return [
        [
            f"A-{100 + number}",
            f"{ARTICLES[number % 8]} {'SMLX'[number // 8]}",
            f"{(4 + number) * rise:.2f}",
            "EUR" if number % 4 else "USD",
            f"2023-{month:02}-01",
            f"2023-{month:02}-{last}",
        ]
        for number in range(32)
    ]


def days() -> Days:
    """May's list; June's with two bad rows; June's again, as it was meant."""
    may, june = price_list(5, rise=1.0), price_list(6, rise=1.1)
    broken = [list(row) for row in june]
    broken[3][2] = "-7.70"
    broken[9][3] = "GBP"
    return {
        day: {f"partner/price_list/{date}.csv": as_csv([COLUMNS, *rows])}
        for day, date, rows in [
            (1, "2023-05-01", may),
            (2, "2023-06-01", broken),
            (3, "2023-06-02", june),
        ]
    }
