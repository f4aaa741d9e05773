"""Products in stock, as an AWS DMS task writes them to CSV files (S3)."""

from generators import Days

PRODUCTS = """\
I,101,Furniture,Oak Desk 140 cm,25,2022-03-01 08:00:00
I,102,Furniture,"Desk Chair, grey",30,2022-03-01 08:00:00
I,103,Lighting,Floor Lamp,12,2022-03-01 08:00:00
I,104,Lighting,Desk lamp LED,40,2022-03-01 08:00:00
I,105,Furniture,oak desk  (140cm),3,2022-03-01 08:00:00
I,106,Storage,Steel Shelf 90x30,18,2022-03-01 08:00:00
I,107,Storage,Shelf steel 90 x 30,2,2022-03-01 08:00:00
"""
DAY_2 = {
    "20220302-1134010000.csv": """\
U,102,Furniture,"Desk Chair, grey",20,2022-03-02 11:33:30
I,108,Lighting,Clamp Lamp,15,2022-03-02 11:33:41
""",
    "20220302-1135010000.csv": """\
U,102,Furniture,"Desk Chair, grey",18,2022-03-02 11:34:12
D,103,Lighting,Floor Lamp,12,2022-03-02 11:34:50
""",
}


def days() -> Days:
    """A full load; a day later a product changes twice, and one is deleted."""
    return {
        1: {"inventory/products/LOAD00000001.csv": PRODUCTS.encode()},
        2: {f"inventory/products/{name}": text.encode() for name, text in DAY_2.items()},
    }
