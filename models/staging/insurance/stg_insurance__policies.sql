{{ tidemark.typed_changes(
    source('insurance', 'policies'),
    tidemark.feed('insurance', 'policies'),
) }}
