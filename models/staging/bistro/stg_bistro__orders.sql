{{ typed_changes(
    source('bistro', 'orders'),
    feed('bistro', 'orders'),
) }}
