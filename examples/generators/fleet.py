"""A haulier's vehicles and depots, while the tables change their columns (S9)."""

from generators import Days, as_csv

DEPOTS = {"North": "Leeds", "South": "Bristol", "Docks": "Hull"}


def days() -> Days:
    """A load; then a column is added and one renamed; then one is dropped."""
    depots = list(DEPOTS)
    vehicles = [
        (number, f"TM{number} {'ABC'[number % 3] * 3}", depots[number % 3], 1000 * number)
        for number in range(10, 30)
    ]
    columns = ["vehicle_id", "plate"]
    at = ["2023-05-01 06:00:00", "2023-05-02 09:00:00", "2023-05-03 09:00:00"]
    load = [(*row, at[0]) for row in vehicles]
    renamed = [
        ("U", 10, "TM10 BBB", "Docks", 10250, "diesel", at[1]),
        ("I", 30, "TM30 AAA", "North", 12, "electric", at[1]),
    ]
    dropped = [
        ("U", 11, "TM11 CCC", "South", "diesel", at[2]),
        ("D", 12, "TM12 AAA", "North", "", at[2]),
    ]
    path = "fleet/vehicles"
    extract = "fleet/depots"
    all_depots = [["depot", "city"], *DEPOTS.items()]
    return {
        1: {
            f"{path}/LOAD00000001.csv": as_csv(
                [[*columns, "depot", "mileage", "commit_at"], *load]
            ),
            f"{extract}/2023-05-01.csv": as_csv(all_depots),
        },
        2: {
            f"{path}/20230502-090000000.csv": as_csv(
                [["Op", *columns, "home_depot", "mileage", "fuel", "commit_at"], *renamed]
            ),
            f"{extract}/2023-05-02.csv": as_csv([*all_depots, ("Airport", "Luton")]),
        },
        3: {
            f"{path}/20230503-090000000.csv": as_csv(
                [["Op", *columns, "home_depot", "fuel", "commit_at"], *dropped]
            ),
        },
    }
