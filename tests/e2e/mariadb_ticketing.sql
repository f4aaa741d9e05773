-- The source: a part of a ticket shop in MariaDB, with MySQL's own types. Triggers write the truth
-- to audit.change; mariadb_truth.py creates them.

create database ticketing;
create database audit;
create database work;

create table audit.change (
    change_id bigint unsigned auto_increment primary key,
    of_table varchar(64) not null,
    -- As in the log: the second in which the statement started.
    changed_at char(19) not null,
    -- NULL: a truncate.
    row_key longtext,
    -- NULL: the row is gone.
    image longtext
) collate utf8mb4_bin;

use ticketing;

create table visitor (
    visitor_id bigint unsigned primary key,
    name varchar(100) not null,
    note text,
    born date,
    balance decimal(12, 2) not null default 0,
    visits bigint unsigned,
    score double,
    weight float,
    photo blob,
    wants_mail tinyint(1),
    interests set('music', 'théâtre', 'it''s "odd"'),
    token uuid,
    profile json,
    seen_at timestamp(6) null,
    changed_at datetime(6)
);

-- A key of two columns.
create table booking (
    event_id int unsigned,
    seat char(4),
    state enum('held', 'paid', 'back; "again"'),
    price decimal(12, 2),
    season year,
    is_paid bit(1),
    flags bit(8),
    -- Negative: before the show starts.
    arrives time(6),
    note varchar(60) character set latin1,
    primary key (event_id, seat)
);

-- Without a time. Its keys change, also in case alone, are deleted and come back; and it is truncated.
create table seat_hold (
    seat_hold_id varchar(40) collate utf8mb4_bin primary key,
    held_by text
);

-- Values at the ends of their types.
create table sample (
    sample_id int primary key,
    tiny tinyint,
    utiny tinyint unsigned,
    usmall smallint unsigned,
    umedium mediumint unsigned,
    uint int unsigned,
    big bigint,
    ubig bigint unsigned,
    wide decimal(38, 10),
    widest decimal(65, 30),
    f float,
    d double,
    bit_1 bit(1),
    bit_12 bit(12),
    bit_64 bit(64),
    y year,
    s set('a', 'b', 'c d'),
    e enum('', 'x', '日本'),
    dt datetime,
    dt6 datetime(6),
    ts timestamp null,
    ts6 timestamp(6) null,
    day date,
    t time,
    t6 time(6),
    bin binary(4),
    varbin varbinary(40),
    long_blob longblob,
    ch char(5),
    long_text longtext,
    doc json,
    n int,
    twice int as (n * 2) virtual
);

-- The test writes a row to it and waits until the producer has delivered it.
create table mark (mark_id int primary key);

-- --- values --------------------------------------------------------------------------------------

-- Each transaction of a client locks this row, shared, so that a test can wait until none is open.
create table work.gate (id int primary key);
insert into work.gate values (1);

delimiter //

create function work.odd_text() returns text not deterministic no sql
    return elt(
        1 + floor(rand() * 20),
        'plain', '', ' ', ' blanks around ', 'NULL', 'null', '\\N', 'comma, semicolon; pipe| tab	end',
        'double "quotes"', 'it''s', 'line\nfeed', 'carriage\r\nreturn', 'back\\slash \\t \\" \\u0041',
        '日本語', '👩‍👩‍👧 and 🎫', '\Z and \b', '{"op": "d"}', '=1+1', 'true', null
    )//

-- --- what clients do -----------------------------------------------------------------------------

create procedure work.change_visitor(id bigint unsigned)
begin
    insert ignore into ticketing.visitor (visitor_id, name) values (id, 'new');
    update ticketing.visitor set
        name = coalesce(work.odd_text(), 'no name'), note = work.odd_text(),
        born = date '1930-01-01' + interval floor(rand() * 30000) day,
        balance = rand() * 20000 - 10000,
        visits = 18446744073709551615 - cast(rand() * 1000 as unsigned),
        score = rand() * 1e10, weight = rand() * 1000,
        photo = unhex(concat(md5(rand()), '00ff')), wants_mail = elt(1 + floor(rand() * 3), 0, 1, null),
        interests = floor(rand() * 8), token = uuid(),
        profile = json_object('text', work.odd_text(), 'n', rand()),
        seen_at = timestamp '2026-01-01 00:00:00' + interval rand() * 3e13 microsecond,
        changed_at = timestamp '1900-01-01 00:00:00' + interval rand() * 3e15 microsecond
    where visitor_id = id;
    -- The same row again, in the same transaction.
    update ticketing.visitor set note = work.odd_text() where visitor_id = id;
end//

-- Another one takes its place when the column is there.
create procedure work.change_level(id bigint unsigned) select 1 into @ignored//

create procedure work.book(event int unsigned)
begin
    declare place char(4) default concat('A', floor(rand() * 4));
    delete from ticketing.booking where event_id = event and rand() < 0.3;
    insert into ticketing.booking (event_id, seat, price) values (event, place, rand() * 300)
    on duplicate key update price = price + 1;
    update ticketing.booking set
        state = 1 + floor(rand() * 3), season = 1901 + floor(rand() * 255),
        is_paid = rand() < 0.5, flags = floor(rand() * 256),
        arrives = sec_to_time(rand() * 6000000 - 3000000), note = elt(1 + floor(rand() * 3), 'é;"', '', null)
    where event_id = event;
end//

create procedure work.hold(number int)
begin
    declare id varchar(40) default concat('seat ', number, elt(1 + floor(rand() * 3), '', ' "x"', ', ü'));
    insert into ticketing.seat_hold values (id, work.odd_text())
    on duplicate key update held_by = values(held_by);
    if rand() < 0.5 then delete from ticketing.seat_hold where seat_hold_id = id; end if;
    if rand() < 0.5 then insert ignore into ticketing.seat_hold values (id, work.odd_text()); end if;
    -- There and back again, so that both keys return. (After UPDATE IGNORE, triggers run for rows
    -- that were not updated.)
    if rand() < 0.3 and not exists (select 1 from ticketing.seat_hold where seat_hold_id = upper(id)) then
        update ticketing.seat_hold set seat_hold_id = upper(id) where seat_hold_id = id;
    elseif rand() < 0.5 and not exists (select 1 from ticketing.seat_hold where seat_hold_id = id) then
        update ticketing.seat_hold set seat_hold_id = id where seat_hold_id = upper(id);
    end if;
end//

create procedure work.change_sample(id int)
begin
    delete from ticketing.sample where sample_id = id and id > 4;
    -- Values move between rows; the virtual column is not written.
    insert ignore into ticketing.sample
    select
        id, tiny, utiny, usmall, umedium, uint, big, ubig, wide, widest, f, d, bit_1, bit_12, bit_64, y,
        s, e, dt, dt6, ts, ts6, day, t, t6, bin, varbin, long_blob, ch, long_text, doc, n, null
    from ticketing.sample where sample_id = 1 + floor(rand() * 4) and id > 4;
    update ticketing.sample set
        f = rand() * 1000, d = rand() * 1e10, bit_12 = floor(rand() * 4096), n = floor(rand() * 1000),
        long_text = work.odd_text(), bin = left(unhex(md5(rand())), 4), varbin = unhex(md5(rand()))
    where sample_id = id;
end//

create procedure work.one_transaction()
begin
    declare visitor bigint unsigned default 18446744073709551600 - cast(pow(rand(), 3) * 60 as unsigned);
    declare event int default floor(pow(rand(), 2) * 30);
    -- A deadlock, a lock that lasts too long, a key that is there: nothing of it must arrive.
    declare exit handler for 1213, 1205, 1062 rollback;
    start transaction;
    select id into @ignored from work.gate lock in share mode;
    case floor(rand() * 8)
        when 0 then call work.change_visitor(visitor); call work.change_level(visitor);
        when 1 then call work.change_visitor(visitor); call work.book(event);
        when 2 then call work.book(event);
        when 3 then call work.hold(event);
        when 4 then call work.hold(event); call work.change_sample(1 + floor(rand() * 9));
        -- What follows the savepoint must not arrive, the rest must.
        when 5 then
            call work.book(event);
            savepoint here;
            call work.change_visitor(visitor);
            delete from ticketing.seat_hold;
            rollback to savepoint here;
            call work.hold(event);
        -- A row that is inserted, changed and deleted, and one that comes back.
        when 6 then
            insert ignore into ticketing.visitor (visitor_id, name) values (event, 'x');
            update ticketing.visitor set name = 'y' where visitor_id = event;
            delete from ticketing.visitor where visitor_id = event;
            delete from ticketing.visitor where visitor_id = visitor;
            if rand() < 0.5 then call work.change_visitor(visitor); end if;
        -- Nothing of it must arrive.
        else
            call work.change_visitor(visitor);
            delete from ticketing.booking;
            rollback;
    end case;
    commit;
end//

create procedure work.transactions(seconds int, pause double)
begin
    declare ends_at datetime(6) default sysdate(6) + interval seconds second;
    while sysdate(6) < ends_at do
        call work.one_transaction();
        do sleep(rand() * 2 * pause);
    end while;
end//

delimiter ;
