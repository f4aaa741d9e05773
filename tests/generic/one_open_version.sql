{#
    A key has at most one open version.

    Returns the keys that have more.

    Arguments
        key (list): the columns that identify a row.
#}
{% test one_open_version(model, key) %}

    select
        {{ tidemark.quoted(key) }},
        count(*) as open_versions

    from {{ model }}

    where is_current

    group by {{ tidemark.quoted(key) }}

    having count(*) > 1

{% endtest %}
