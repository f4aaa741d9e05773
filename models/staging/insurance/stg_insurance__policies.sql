{{ typed_changes(
    source('insurance', 'policies'),
    feed('insurance', 'policies'),
) }}
