"""Deliveries of an ERP system: delta extracts with a request number and record modes (S17)."""

from generators import Days, as_csv

COLUMNS = [
    "request_id", "record_number", "record_mode",
    "delivery", "item", "material", "quantity", "plant",
]  # fmt: skip
MATERIALS = ["PUMP-40", "VALVE-15", "SEAL-03", "MOTOR-2K"]


def days() -> Days:
    """Two requests; the later one has before and after images, a reversal and a deletion."""
    first = [
        (7001, number, "N", f"008000{number // 3:04}", 10 * (number % 3 + 1), MATERIALS[number % 4],
         f"{5 + number}.000", "1000" if number % 2 else "2000")
        for number in range(24)
    ]  # fmt: skip
    second = [
        # A quantity is corrected: the row as it was, then as it is.
        (7002, 1, "X", "0080000000", 10, "PUMP-40", "-5.000", "2000"),
        (7002, 2, "", "0080000000", 10, "PUMP-40", "8.000", "2000"),
        # A wrong posting is taken back, an item is deleted, one is new.
        (7002, 3, "R", "0080000002", 20, "MOTOR-2K", "-12.000", "1000"),
        (7002, 4, "D", "0080000004", 30, "SEAL-03", "19.000", "2000"),
        (7002, 5, "N", "0080000008", 10, "SEAL-03", "40.500", "1000"),
    ]
    return {
        1: {"erp/deliveries/2024-02-01.csv": as_csv([COLUMNS, *first])},
        2: {"erp/deliveries/2024-02-02.csv": as_csv([COLUMNS, *second])},
    }
