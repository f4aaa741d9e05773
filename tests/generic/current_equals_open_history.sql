{#
    The current table equals the open versions of the history, column for column.

    Returns the rows that only one of them has.

    Arguments
        current (relation): the current table (SCD1) of the same feed.
        columns (list): the feed's columns.
#}
{% test current_equals_open_history(model, current, columns) %}

    with

    open_versions as (

        select {{ tidemark.quoted(columns) }}

        from {{ model }}

        where is_current

    ),

    current_rows as (

        select {{ tidemark.quoted(columns) }} from {{ current }}

    )

    (
        select * from open_versions
        except all
        select * from current_rows
    )

    union all

    (
        select * from current_rows
        except all
        select * from open_versions
    )

{% endtest %}
