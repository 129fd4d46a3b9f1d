//! Tests what is planned, recommended and chosen, and compares the rows of modes with what is sent and kept. tests/costs compares
//! hints, the wire, the clients and the servers.

use crate::common::{database, hint_from, keep};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::cost::{
    Advice, DirectorySize, Mode, ModeCosts, Offers, Plan, Workload, choose_mode, journal_limit, modes,
};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::error::Error;
use keyhush_core::instant;
use keyhush_core::layout::Layout;
use keyhush_core::local::Local;
use keyhush_core::random::ChaCha;
use keyhush_core::single;
use keyhush_core::single::making::{Builder, lookups};
use keyhush_core::tapir::hint::Hint;

const KINDS: [Proofs; 2] = [Proofs::Openings, Proofs::Tags];

/// A planned database, and its hint.
fn made(plan: &Plan, proofs: Proofs) -> (Database<Merkle>, Hint) {
    let content: Vec<u8> =
        (0..plan.layout.records() * plan.layout.stored().record_bytes).map(|i| (i % 251) as u8).collect();
    let mut database = database::<Merkle>(plan.layout, &content);
    let hint = hint_from(&mut database, proofs, &mut ChaCha::new(&[1; 32], 0));
    (database, hint)
}

#[test]
fn tags_are_recommended_where_they_fit() {
    let base = Workload::new(1 << 20, 32);
    let held = Plan::new(&base).unwrap().tags.memory_bytes;
    let recommended = |workload: Workload| Plan::new(&workload).unwrap().proofs;
    assert_eq!(recommended(Workload { memory_bytes: held, ..base }), Proofs::Tags);
    assert_eq!(recommended(Workload { memory_bytes: held - 1, ..base }), Proofs::Openings);
    assert_eq!(recommended(Workload { memory_bytes: 0, ..base }), Proofs::Openings);
    // Changes cost the same with both kinds.
    assert_eq!(recommended(Workload { changes_per_day: 1_000_000, ..base }), Proofs::Tags);
    assert_eq!(recommended(Workload { lookups_per_day: 0, changes_per_day: 1, ..base }), Proofs::Tags);
}

#[test]
fn stored_records_have_room_for_what_a_key_and_a_length_take() {
    let base = Workload::new(10, 30);
    for (keyed, variable, record_bytes) in [(false, false, 30), (true, false, 46), (false, true, 32), (true, true, 48)]
    {
        let plan = Plan::new(&Workload { keyed, variable, ..base }).unwrap();
        assert_eq!(plan.layout.record_bytes(), record_bytes);
        assert_eq!(plan.merkle.directory_bytes > 0, keyed);
    }
    // In a set of keys, values have no bytes.
    assert_eq!(Plan::new(&Workload { keyed: true, ..Workload::new(10, 0) }).unwrap().layout.record_bytes(), 16);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_overflows() {
    let base = Workload::new(1000, 32);
    for workload in [
        Workload::new(0, 32),
        Workload::new(1000, 0),
        Workload::new(1000, u64::MAX),
        Workload::new(u64::MAX, 32),
        Workload { partitions: Some(0), ..base },
        Workload { partitions: Some(u64::MAX), ..base },
        Workload { queries: 0, ..base },
        Workload { queries: 65, ..base },
        Workload { uplink_kbit: 0, ..base },
        Workload { downlink_kbit: 0, ..base },
    ] {
        assert!(matches!(Plan::new(&workload), Err(Error::Layout(_))), "{workload:?}");
    }
    let endless = Workload {
        lookups_per_day: u64::MAX,
        changes_per_day: u64::MAX,
        memory_bytes: u64::MAX,
        uplink_kbit: 1,
        ..base
    };
    assert_eq!(Plan::new(&endless).unwrap().merkle.day_bytes_down, u64::MAX);
}

// ---- modes ---------------------------------------------------------------------------------------

fn rows(plan: &Plan, mode: Mode) -> Vec<&ModeCosts> {
    plan.modes.iter().filter(|row| row.mode == mode).collect()
}

/// Eight records in a block.
fn packed(records: u64, value_bytes: u64) -> Plan {
    Plan::new(&Workload { pack: 8, ..Workload::new(records, value_bytes) }).unwrap()
}

/// A client and two servers send the bytes in the rows, at every g.
#[test]
fn rows_are_what_is_sent_and_kept() {
    for (records, value_bytes, g) in [(1000, 32, 1), (1003, 7, 8), (100, 5, 4), (70, 300, 1)] {
        let workload = Workload { pack: g, partitions: Some(3), ..Workload::new(records, value_bytes) };
        let plan = Plan::new(&workload).unwrap();
        let database = database::<Merkle>(plan.layout, &vec![7; (records * value_bytes) as usize]);
        let header = 2 * 40;
        let manifests = 2 * (224 + 64 * 3);

        let [local] = rows(&plan, Mode::Local)[..] else { panic!("one row") };
        let hashes = database.content_hashes().unwrap();
        let copy = Local::new(plan.layout, &hashes, [0; 16]).unwrap();
        assert_eq!(local.first_bytes, manifests + plan.layout.database_bytes() as u64);
        assert_eq!((local.lookup_bytes_up, local.lookup_bytes_down, local.server_lookup_micros), (0, 0, 0));
        assert_eq!(local.held.bytes(), plan.layout.database_bytes() as u64);
        // A whole copy has no flags of partitions.
        let unwhole = copy.encode(&[0; 32]).len() as u64 - 3;
        assert_eq!(local.disk_bytes, unwhole + local.held.bytes() + manifests / 2);

        let [instant] = rows(&plan, Mode::Instant)[..] else { panic!("one row") };
        let pending = instant::query::query(&plan.layout, &[5], &[1; 32]).unwrap();
        let requests: Vec<_> = [0, 1].map(|server| pending.request(server).unwrap()).into();
        let answers: usize = requests
            .iter()
            .map(|request| instant::pass::answer(&database, &[(request, At::Newest)]).unwrap()[0].len())
            .sum();
        assert_eq!(instant.lookup_bytes_up, header + requests.iter().map(|body| body.len() as u64).sum::<u64>());
        assert_eq!(instant.lookup_bytes_down, header + answers as u64);
        assert_eq!((instant.first_bytes, instant.held.bytes(), instant.disk_bytes), (manifests, 0, 0));

        for (full, proofs) in rows(&plan, Mode::Full).into_iter().zip(KINDS) {
            let (_, hint) = made(&plan, proofs);
            assert_eq!(full.proofs, Some(proofs));
            assert_eq!(full.held.bytes() as usize, hint.parity_bytes() + hint.permutation_bytes() + hint.tag_bytes());
            assert_eq!(full.first_bytes, local.first_bytes);
        }
    }
}

#[test]
fn an_instant_lookup_with_three_servers_or_more_costs_what_its_messages_do() {
    let Plan { layout, .. } = packed(700, 100);
    for servers in [3, 5, 8] {
        let workload = Workload { servers: servers as u64, queries: 2, ..Workload::new(0, 0) };
        let rows = modes(&layout, &DirectorySize::default(), &[Proofs::Openings], &workload);
        let row = rows.iter().find(|row| row.mode == Mode::Instant).unwrap();
        let pending = instant::query::query_any_of(&layout, servers, &[5, 6], &[1; 32]).unwrap();
        let queries: usize = (0..servers).map(|server| pending.request(server).unwrap().len()).sum();
        let answer = instant::vectors::shape(&layout, servers).answer_bytes();
        assert_eq!(row.lookup_bytes_up as usize, servers * 42 + queries);
        assert_eq!(row.lookup_bytes_down as usize, servers * (40 + 2 * answer));
    }
}

#[test]
fn with_three_servers_or_more_a_map_never_prepares_hints_for_two() {
    for records in [1 << 16, 1 << 20, 1 << 22] {
        let Plan { layout, .. } = packed(records, 32);
        for instant in [false, true] {
            let modes: Vec<_> =
                changes(&layout, Offers { instant, servers: 3 }).into_iter().map(|(_, mode)| mode).collect();
            assert!(modes.iter().all(|mode| *mode != Mode::Full), "{records}: {modes:?}");
            assert!(instant || !modes.contains(&Mode::Instant), "{records}: {modes:?}");
        }
    }
}

#[test]
fn a_database_without_commitments_is_kept_or_asked_with_tags() {
    let layout = Layout::plan(1 << 20, 32, None).unwrap();
    let rows = modes(&layout, &DirectorySize::default(), &[Proofs::Tags], &Workload::new(0, 0));
    let kinds: Vec<_> = rows.iter().map(|row| (row.mode, row.proofs)).collect();
    assert_eq!(kinds, [(Mode::Local, None), (Mode::Full, Some(Proofs::Tags)), (Mode::Single, None)]);
}

/// The number of ids with cutoffs is an expectation. Everything else is exact to the byte; all together is within a hundredth.
#[test]
fn hints_for_one_server_cost_what_is_planned() {
    let near = |planned: u64, made: usize| planned.abs_diff(made as u64) <= made as u64 / 100 + 2048;
    for (records, value_bytes, queries, hint_lookups) in
        [(1000, 32, 8, None), (40_000, 7, 3, Some(500)), (70_000, 1, 64, Some(64))]
    {
        let plan =
            Plan::new(&Workload { queries, hint_lookups, changes_per_day: 1, ..Workload::new(records, value_bytes) })
                .unwrap();
        let [row] = rows(&plan, Mode::Single)[..] else { panic!("one row") };
        let (database, _) = made(&plan, Proofs::Tags);
        let pairs = hint_lookups.map_or(lookups(&plan.layout), |lookups| lookups as usize);
        let mut builder = Builder::new(plan.layout, &database.content_hashes().unwrap(), pairs, [3; 32]).unwrap();
        for q in 0..plan.layout.partitions() {
            assert!(keep(&mut builder, 0, q, database.partition(q).unwrap()));
        }
        let mut hints = builder.finish_at(0).map_err(|(error, _)| error).unwrap();
        assert!(near(row.held.hints, hints.hint_bytes()), "{} {}", row.held.hints, hints.hint_bytes());
        assert_eq!(row.held.tags, hints.tag_bytes() as u64);
        let indices: Vec<u32> = (0..queries as u32).collect();
        let pending = single::query::query(&mut hints, &indices, &[4; 32]).unwrap();
        assert_eq!(row.lookup_bytes_up, 40 + pending.queries().len() as u64);
        assert_eq!(row.lookup_bytes_down, 40 + (2 * queries * plan.layout.record_bytes() as u64));
        let stored = hints.encode(&[0; 32]).unwrap().len() + pending.encode(&plan.layout).len();
        let journal = journal_limit(row.held.hints + row.held.tags) as usize;
        assert!(row.disk_bytes as usize >= stored + journal);
        assert!(row.disk_bytes as usize <= stored + journal + 8 * pairs + 16 * 1024 + stored / 50);
        assert_eq!(row.prepare_bytes, plan.layout.database_bytes() as u64);
    }
}

const NONE: Offers = Offers { instant: false, servers: 2 };
const ALL: Offers = Offers { instant: true, servers: 2 };

/// The numbers of lookups at which the mode changes, and the mode from then on, beginning with the first lookup.
fn changes(layout: &Layout, offers: Offers) -> Vec<(u64, Mode)> {
    let at = |lookups| choose_mode(layout, &DirectorySize::default(), offers, lookups);
    let mut found = vec![(0, at(0))];
    for power in 0..40 {
        let (mut before, mut after) = (found[found.len() - 1].0, 1 << power);
        if after <= before || at(after) == at(before) {
            continue;
        }
        while after - before > 1 {
            let middle = u64::midpoint(before, after);
            if at(middle) == found[found.len() - 1].1 { before = middle } else { after = middle }
        }
        found.push((after, at(after)));
    }
    found
}

#[test]
fn a_map_that_chooses_begins_with_nothing_and_prepares_for_as_much_as_it_has_spent() {
    let Plan { layout, modes, .. } = packed(1 << 20, 32);
    let [(0, Mode::Instant), (full, Mode::Full)] = changes(&layout, ALL)[..] else {
        panic!("{:?}", changes(&layout, ALL))
    };
    // The break-even points, from the rows alone: how much more it costs to prepare, divided by how much less a lookup costs.
    let workload = Workload::new(0, 0);
    let row = |mode, kind| {
        let row = modes.iter().filter(|row| row.mode == mode).nth(kind).unwrap();
        let prepare = row.micros(&workload, 0);
        (prepare, row.micros(&workload, 1) - prepare)
    };
    assert_eq!(full, 4942); // docs/costs.md
    let even = |(prepare, lookup): (u128, u128), (more, less): (u128, u128)| {
        u64::try_from((more - prepare) / (lookup - less) + 1).unwrap()
    };
    let (instant, fully) = (row(Mode::Instant, 0), row(Mode::Full, 1));
    assert_eq!(full, even(instant, fully));
    assert!(100 < full && full < 10_000, "{full}");
    let single = Layout::plan(1 << 20, 32, None).unwrap();
    assert_eq!(changes(&single, ALL), [(0, Mode::Instant), (2405, Mode::Full)]); // docs/costs.md
}

#[test]
fn what_is_not_offered_is_not_chosen() {
    let Plan { layout, .. } = packed(1 << 20, 32);
    let without = |offers| changes(&layout, offers).into_iter().map(|(_, mode)| mode).collect::<Vec<_>>();
    assert_eq!(without(NONE), [Mode::Full]);
    assert_eq!(without(ALL), [Mode::Instant, Mode::Full]);
}

#[test]
fn small_databases_are_kept_whole_whatever_is_offered_and_however_often_they_are_asked() {
    let layout = Layout::plan(1 << 19, 32, None).unwrap(); // 16 MiB
    assert_eq!(changes(&layout, ALL), [(0, Mode::Local)]);
    let layout = Layout::plan((1 << 19) + 16, 32, None).unwrap();
    assert_eq!(choose_mode(&layout, &DirectorySize::default(), ALL, 0), Mode::Instant);
}

/// A client never goes back: a hint is not dropped because it was used.
#[test]
fn modes_only_ever_change_to_one_that_takes_more_preparing() {
    for (records, value_bytes) in
        [(1 << 20, 32), (1 << 20, 48), (1 << 22, 16), (1 << 20, 256), (1 << 24, 32), (1 << 16, 1024)]
    {
        for plan in [packed(records, value_bytes), Plan::new(&Workload::new(records, value_bytes)).unwrap()] {
            let prepared = |mode| rows(&plan, mode).iter().map(|row| row.prepare_bytes).min().unwrap();
            let changes = changes(&plan.layout, ALL);
            assert!(changes.windows(2).all(|pair| prepared(pair[0].1) < prepared(pair[1].1)), "{changes:?}");
            assert_eq!(
                choose_mode(&plan.layout, &DirectorySize::default(), ALL, u64::MAX),
                changes[changes.len() - 1].1
            );
        }
    }
}

/// A month of lookups in one map: before the download pays it is instant, and from then on what was downloaded.
#[test]
fn an_advice_is_the_mode_of_a_map_after_a_month_and_the_lookup_that_changes_it() {
    for (records, value_bytes) in [(5_000, 32), (1 << 20, 32), (4_500_000, 0), (1 << 22, 256), (1 << 24, 32)] {
        for servers in 1..=4 {
            for lookups_per_day in [0, 1, 20, 1_000, 1 << 40] {
                let workload = Workload {
                    keyed: true,
                    servers: servers as u64,
                    lookups_per_day,
                    ..Workload::new(records, value_bytes)
                };
                let Plan { layout, recommended: advice, modes, .. } = Plan::new(&workload).unwrap();
                let (directory, offers) = (DirectorySize::expected(&layout), Offers { instant: servers > 1, servers });
                let at = |lookups| choose_mode(&layout, &directory, offers, lookups);
                let case = format!("{servers} servers, {workload:?}: {advice:?}");
                assert!(modes.iter().any(|row| row.mode == advice.mode), "{case}");
                assert_ne!(advice.download, Mode::Instant, "{case}");
                match advice.pays_after {
                    Some(0) => assert!(servers == 1 && advice.mode == advice.download, "{case}"),
                    Some(least) => {
                        assert!(least == 1 || at(least - 1) == Mode::Instant, "{case}");
                        assert_eq!(at(least), advice.download, "{case}");
                    }
                    None => assert_eq!(at(u64::MAX), Mode::Instant, "{case}"),
                }
                if lookups_per_day == 0 {
                    assert_eq!(advice.mode == Mode::Instant, servers > 1, "{case}");
                } else {
                    assert_eq!(advice.mode, at(30 * lookups_per_day), "{case}");
                }
                let never = Advice::new(&layout, &directory, offers, false, lookups_per_day);
                assert_eq!(never.mode == Mode::Instant, servers > 1, "{case}");
            }
        }
    }
}

/// Held besides a hint: the key of 49 292 bytes, and for every partition the key's hash and 48 bytes for each row.
#[test]
fn with_pointproofs_a_hint_is_made_as_for_merkle_and_keeps_what_verifies() {
    let plan = Plan::new(&Workload::new(1 << 20, 32)).unwrap();
    let verifier = 49_292 + 16 * (32 + 48 * 256);
    let [merkle, tags, proved, ..] = rows(&plan, Mode::Full)[..] else { panic!("three rows or more") };
    assert_eq!((merkle.prepare_bytes, proved.prepare_bytes), (32 << 20, (32 << 20) + verifier));
    assert_eq!(proved.held.verifier, verifier);
    assert_eq!(proved.held.bytes(), merkle.held.bytes() + verifier);
    assert_eq!(proved.lookup_bytes_down, tags.lookup_bytes_down + 2 * 48);
    assert!(proved.disk_bytes >= proved.held.bytes(), "it is stored as well");
    assert!(proved.lookup_bytes_down + proved.lookup_bytes_up <= 1315 + 64);
}

#[test]
fn with_pointproofs_a_list_has_a_commitment_for_each_row_that_can_be_touched() {
    let layout = Layout::new(40 * 600, 8, 40, 600).unwrap(); // of 120 rows
    let directory = DirectorySize::default();
    let pointproofs = Proofs::named("pointproofs").unwrap();
    for (changes_per_day, rows) in [(0, 0), (1, 1), (119, 119), (500, 120)] {
        let workload = Workload { changes_per_day, lookups_per_day: 0, ..Workload::new(24_000, 8) };
        let rows_of = modes(&layout, &directory, &[Proofs::Openings, Proofs::Tags, pointproofs], &workload);
        let day =
            |proofs| rows_of.iter().find(|row| row.mode == Mode::Full && row.proofs == Some(proofs)).unwrap().day_bytes;
        let manifests = if changes_per_day > 0 { 2 * 104 } else { 0 };
        assert_eq!(day(pointproofs), day(Proofs::Openings) + manifests + 48 * rows, "{changes_per_day} changes");
    }
}
