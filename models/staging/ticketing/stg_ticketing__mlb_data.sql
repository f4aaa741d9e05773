{{ typed_changes(
    source('ticketing', 'mlb_data'),
    feed('ticketing', 'mlb_data'),
) }}
