-- The source: a ticket shop, and beside it (schema audit) the truth, which triggers write.

create schema ticketing;
create schema audit;
create schema work;

create type ticketing.kind as enum ('concert', 'match', 'théâtre', 'other, "odd"');

create table ticketing.venue (
    venue_id integer primary key,
    name text not null,
    opened date,
    seats smallint,
    is_indoor boolean,
    latitude double precision,
    -- Long, and stored outside the row: an update that does not touch it does not log it.
    seat_plan text
);
alter table ticketing.venue alter column seat_plan set storage external;

create table ticketing.event (
    event_id bigint primary key,
    venue_id integer,
    title text,
    kind ticketing.kind,
    starts_at timestamptz,
    doors_at timestamp,
    opens time,
    length interval,
    tags text[],
    price_steps integer[],
    details jsonb,
    imported json
);

create table ticketing.customer (
    customer_id uuid primary key,
    name text,
    email varchar(200),
    born date,
    balance numeric(12, 2) not null default 0,
    credit money,
    score numeric,
    last_address inet,
    photo bytea,
    wants_mail boolean,
    changed_at timestamptz,
    note text
);

create table ticketing.orders (
    order_id bigint primary key,
    customer_id uuid,
    state text,
    total numeric(12, 2),
    placed_at timestamptz(3)
);

-- A key of two columns. The log has whole rows, also of deletes.
create table ticketing.order_line (
    order_id bigint,
    line_no smallint,
    event_id bigint,
    seat char(4),
    price numeric(12, 2),
    primary key (order_id, line_no)
);
alter table ticketing.order_line replica identity full;

-- Truncated, and its keys are deleted and come back in one transaction.
create table ticketing.seat_hold (
    seat_hold_id text primary key,
    held_by text,
    held_until timestamp(3)
);

-- Its keys change.
create table ticketing.member (
    member_id text primary key,
    customer_id uuid,
    points real
);

-- Values at the ends of their types.
create table ticketing.sample (
    sample_id integer primary key,
    a_smallint smallint,
    a_bigint bigint,
    a_real real,
    a_double double precision,
    a_numeric numeric,
    a_wide_numeric numeric(38, 10),
    a_date date,
    a_time time,
    a_timestamp timestamp,
    a_timestamptz timestamptz,
    an_interval interval,
    a_boolean boolean,
    a_bytea bytea,
    a_text text,
    a_json json,
    a_jsonb jsonb,
    ints integer[],
    texts text[],
    an_inet inet,
    a_uuid uuid,
    a_money money
);

-- The test writes a row to it and waits until the producer has delivered it.
create table ticketing.mark (mark_id integer primary key);

-- --- the truth -----------------------------------------------------------------------------------

create table audit.change (
    change_id bigserial primary key,
    of_table text not null,
    -- The transaction; its time is pg_xact_commit_timestamp.
    xid xid not null default pg_current_xact_id()::xid,
    -- NULL: a truncate.
    key jsonb,
    -- NULL: the row is gone.
    image jsonb
);

-- How Tidemark should show a value of each type. See truth.py.
create function audit.told_as(type text, name text) returns text language sql as $$
    select case
        when type = 'money' then format('(($1).%I::numeric)::text', name)
        when type = 'bytea' then format('translate(encode(($1).%I, ''base64''), chr(10), '''')', name)
        when type in ('timestamp without time zone', 'timestamp with time zone')
            then format('to_char(($1).%I, ''YYYY-MM-DD HH24:MI:SS.US'')', name)
        when type = 'time without time zone'
            then format('to_char(($1).%I, ''HH24:MI:SS.US'')', name)
        when type = 'interval' then format(
            'to_char(($1).%I, ''"P"FMYYYY"Y"FMMM"M"FMDD"DT"FMHH24"H"FMMI"M"'')'
            || ' || extract(second from ($1).%I) || ''S''',
            name, name
        )
        when type = 'ARRAY' then format('array_to_json(($1).%I)::text', name)
        -- What clients see; a cast to text adds /32, and drops the blanks at the end.
        when type = 'character' then format('bpcharout(($1).%I)::text', name)
        when type = 'inet' then format('inet_out(($1).%I)::text', name)
        else format('($1).%I::text', name)
    end
$$;

-- Writes audit.told(row) for a table, which gives the row as texts. Again after a change of columns.
create function audit.watch(of_table text) returns void language plpgsql as $$
declare
    columns text;
    keys text;
begin
    select string_agg(
        format('%L, %s', column_name, audit.told_as(data_type, column_name)), ', '
        order by ordinal_position
    )
    into columns
    from information_schema.columns
    where table_schema = 'ticketing' and table_name = of_table;
    execute format(
        'create or replace function audit.told(ticketing.%I) returns jsonb language sql as '
        '$f$ select jsonb_build_object(%s) $f$', of_table, columns
    );
    select string_agg(format('%L', attname), ', ' order by attnum)
    into keys
    from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
    where indrelid = format('ticketing.%I', of_table)::regclass and indisprimary;
    execute format(
        'create or replace trigger audit_rows after insert or update or delete on ticketing.%I '
        'for each row execute function audit.write(%s)', of_table, keys
    );
    execute format(
        'create or replace trigger audit_truncate after truncate on ticketing.%I '
        'for each statement execute function audit.write()', of_table
    );
end $$;

create function audit.key_of(image jsonb, names text[]) returns jsonb language sql as $$
    select jsonb_agg(image -> name order by place) from unnest(names) with ordinality as it (name, place)
$$;

create function audit.write() returns trigger language plpgsql as $$
declare
    old_row jsonb;
    new_row jsonb;
begin
    if tg_op = 'TRUNCATE' then
        insert into audit.change (of_table) values (tg_table_name);
        return null;
    end if;
    if tg_op <> 'INSERT' then
        old_row := audit.told(old);
    end if;
    if tg_op <> 'DELETE' then
        new_row := audit.told(new);
    end if;
    if tg_op = 'DELETE'
        or audit.key_of(old_row, tg_argv) is distinct from audit.key_of(new_row, tg_argv)
           and tg_op = 'UPDATE'
    then
        insert into audit.change (of_table, key)
        values (tg_table_name, audit.key_of(old_row, tg_argv));
    end if;
    if tg_op <> 'DELETE' then
        insert into audit.change (of_table, key, image)
        values (tg_table_name, audit.key_of(new_row, tg_argv), new_row);
    end if;
    return null;
end $$;

select audit.watch(table_name) from information_schema.tables
where table_schema = 'ticketing' and table_name <> 'mark';

-- --- values --------------------------------------------------------------------------------------

create function work.pick(variadic choices text[]) returns text language sql volatile as $$
    select choices[1 + floor(random() * cardinality(choices))::int]
$$;

create function work.odd_text() returns text language sql volatile as $$
    select work.pick(
        'plain', '', ' ', ' blanks around ', 'NULL', 'null', '\N', 'comma, semicolon; pipe| tab	end',
        'double "quotes"', 'it''s', e'line\nfeed', e'carriage\r\nreturn', 'back\slash \t \" \u0041',
        '"', '""', '日本語', 'e' || U&'\0301', '👩‍👩‍👧 and 🎫', U&'\2028 and \FEFF', e'\x01control\x1f',
        '{"op": "d"}', '{"scale":2,"value":"AQ=="}', 'X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ', '=1+1', 'true', '0', '1e5', null
    )
$$;

-- Not compressible, so that it is stored outside the row.
create function work.long_text() returns text language sql volatile as $$
    select string_agg(md5(random()::text), ' "' || work.odd_text() || e'"\n')
    from generate_series(1, 150)
$$;

create function work.a_time() returns timestamptz language sql volatile as $$
    select timestamptz '2026-01-01 00:00Z' + random() * interval '300 days'
$$;

create function work.customer(number bigint) returns uuid language sql immutable as $$
    select md5(number::text)::uuid
$$;

-- --- what clients do -----------------------------------------------------------------------------

create procedure work.change_customer(id uuid) language plpgsql as $$
begin
    insert into ticketing.customer (customer_id, name) values (id, 'new') on conflict do nothing;
    update ticketing.customer set
        name = work.odd_text(),
        email = work.odd_text(),
        born = date '1930-01-01' + floor(random() * 30000)::int,
        balance = round((random() * 20000 - 10000)::numeric, 2),
        credit = (random() * 500)::numeric::money,
        score = (random() * 10000 - 5000)::numeric * (10.0 ^ (floor(random() * 20) - 10)::int),
        last_address = work.pick('10.1.2.3', '10.0.0.0/8', '::1', 'fe80::1/64', null)::inet,
        photo = decode(md5(random()::text) || '00ff', 'hex'),
        wants_mail = work.pick('true', 'false', null)::boolean,
        changed_at = work.a_time()
    where customer_id = id;
    -- The same row again, and again.
    update ticketing.customer set note = work.odd_text() where customer_id = id;
    if random() < 0.3 then
        update ticketing.customer set note = work.long_text() where customer_id = id;
    end if;
end $$;

-- Another one takes its place when the column is there.
create procedure work.change_loyalty(id uuid) language sql as $$ select 1 $$;

create procedure work.change_event(id bigint) language plpgsql as $$
begin
    insert into ticketing.event (event_id) values (id) on conflict do nothing;
    update ticketing.event set
        venue_id = 1 + floor(random() * 20),
        title = work.odd_text(),
        kind = work.pick('concert', 'match', 'théâtre', 'other, "odd"', null)::ticketing.kind,
        starts_at = work.a_time(),
        doors_at = work.a_time() at time zone 'UTC',
        opens = (work.a_time() at time zone 'UTC')::time,
        length = make_interval(floor(random() * 3)::int, floor(random() * 12)::int, 0,
            floor(random() * 40)::int, floor(random() * 24)::int, 5, random() * 60),
        tags = array[work.odd_text(), work.odd_text()],
        price_steps = work.pick('{}', '{1,2,3}', '{-1,null}', null)::integer[],
        details = jsonb_build_object('text', work.odd_text(), 'number', random(), 'list', array[1, 2]),
        imported = work.pick('{"b":  1, "a": [1.10, 1e3]}', '"text"', 'null', '[]', null)::json
    where event_id = id;
    -- The long seat plan of the venue is not logged.
    update ticketing.venue set
        name = coalesce(work.odd_text(), 'no name'), seats = floor(random() * 30000),
        is_indoor = not is_indoor, latitude = random() * 180 - 90
    where venue_id = 1 + id % 20;
end $$;

create sequence work.order_id start 1000;

create procedure work.buy(buyer uuid) language plpgsql as $$
declare
    id bigint := nextval('work.order_id');
begin
    insert into ticketing.orders values (id, buyer, 'open', 0, work.a_time());
    insert into ticketing.order_line
    select id, line, floor(random() * 50), 'A' || line, round((random() * 300)::numeric, 2)
    from generate_series(1, 1 + floor(random() * 4)::int) as line;
    update ticketing.orders
    set total = (select sum(price) from ticketing.order_line where order_id = id), state = 'paid'
    where order_id = id;
end $$;

create procedure work.refund() language plpgsql as $$
declare
    id bigint := 1000 + floor(random() * (select last_value - 999 from work.order_id));
begin
    update ticketing.order_line set price = 0 where order_id = id and line_no = 1;
    delete from ticketing.order_line where order_id = id and line_no > 1;
    if random() < 0.5 then
        delete from ticketing.order_line where order_id = id;
        delete from ticketing.orders where order_id = id;
    else
        update ticketing.orders set state = 'refunded', total = -total where order_id = id;
    end if;
end $$;

create procedure work.hold(number bigint) language plpgsql as $$
declare
    id text := 'seat ' || number || coalesce(work.pick('', ' "x"', ', ü'), '');
begin
    insert into ticketing.seat_hold values (id, work.odd_text(), work.a_time())
    on conflict (seat_hold_id) do update set held_by = excluded.held_by;
    if random() < 0.5 then
        delete from ticketing.seat_hold where seat_hold_id = id;
    end if;
    if random() < 0.5 then
        insert into ticketing.seat_hold values (id, work.odd_text(), work.a_time())
        on conflict do nothing;
    end if;
end $$;

create procedure work.rename_member(number bigint) language plpgsql as $$
declare
    id text := 'M' || number;
begin
    -- There and back again, so that both keys return.
    if random() < 0.5 then
        update ticketing.member set member_id = id || '-new', points = points + random()
        where member_id = id
            and not exists (select from ticketing.member where member_id = id || '-new');
    else
        update ticketing.member set member_id = id
        where member_id = id || '-new'
            and not exists (select from ticketing.member where member_id = id);
    end if;
    insert into ticketing.member values (id, work.customer(number), random() * 100)
    on conflict (member_id) do update set points = excluded.points;
exception when unique_violation then
    -- Another client was faster: what this call has done is rolled back, its transaction goes on.
end $$;

-- --- what is there before the first client -------------------------------------------------------

insert into ticketing.venue
select
    id, 'Venue ' || id, date '1900-01-01' + id * 1000, id * 100, id % 2 = 0, id / 3.0,
    work.long_text()
from generate_series(1, 20) as id;

do $$ begin
    for number in 1 .. 60 loop
        call work.change_customer(work.customer(number));
        call work.buy(work.customer(number));
    end loop;
    for number in 0 .. 30 loop
        call work.change_event(number);
        call work.hold(number);
        call work.rename_member(number);
    end loop;
end $$;

insert into ticketing.sample values
(1, -32768, -9223372036854775808, '-3.4e38', '-1.7e308', 123456789012345678901234567890.123456789,
    1234567890123456789012345678.0123456789, '0001-01-01', '00:00', '0001-01-01 00:00',
    '0001-01-01 00:00Z', '-1 year -2 days', true, '\x', '', '{}', '{}', '{}', '{}', '0.0.0.0/0',
    '00000000-0000-0000-0000-000000000000', '-92233720368547758.08'),
(2, 32767, 9223372036854775807, '3.4e38', '1.7e308', -0.00000000000000000001, -0.0000000001,
    '9999-12-31', '23:59:59.999999', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999Z',
    '9 years 11 months 30 days 23:59:59.999999', false, '\x00ff10', 'text', '[1, 2]',
    '{"a": [1, {"b": null}]}', '{1,null,-2147483648}', '{"",null,"a,b","\"","NULL"}', '::/0',
    'ffffffff-ffff-ffff-ffff-ffffffffffff', '92233720368547758.07'),
(3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null, null, null, null),
(4, 0, 0, '0.1', '0.1', 1000, 0, '1969-12-31', '12:00:00.5', '1969-12-31 23:59:59.5',
    '1969-12-31 23:59:59.5Z', '0', true, '\x31', '1', '1', '1', '{0}', '{1}', '127.0.0.1',
    '00010203-0405-0607-0809-0a0b0c0d0e0f', '0'),
(5, 1, 1, '1e-30', '1e-300', 1.10, 1.10, '1582-10-15', '01:02:03', '1582-10-10 00:00',
    '1900-01-01 00:00+01', '1 mon', false, '\xf09f8eab', 'x', 'null', 'null', '{1}', '{x}',
    '192.168.0.1/32', '00010203-0405-0607-0809-0a0b0c0d0e0e', '1.1');

-- Swaps values at the ends of their types between rows.
create procedure work.change_sample(id integer) language plpgsql as $$
declare
    pattern ticketing.sample;
begin
    select * into pattern from ticketing.sample where sample_id = 1 + floor(random() * 5)::int;
    delete from ticketing.sample where sample_id = id and id > 5;
    if id > 5 and pattern.sample_id is not null then
        pattern.sample_id := id;
        insert into ticketing.sample select pattern.* on conflict do nothing;
    end if;
    update ticketing.sample set
        a_numeric = (random() * 100)::numeric * (10.0 ^ (floor(random() * 30) - 15)::int),
        a_real = random() * 1000, a_double = random() * 1e10, a_boolean = not a_boolean,
        a_text = work.odd_text(), a_jsonb = to_jsonb(work.odd_text()),
        texts = array[work.odd_text()], a_uuid = gen_random_uuid(),
        a_bytea = decode(md5(random()::text), 'hex')
    where sample_id = id;
end $$;
