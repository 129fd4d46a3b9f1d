//! Costs computed equal costs measured: what a plan says of buffers and stored forms is what the algorithms make. The
//! wire, the clients and the servers are held to it in tests/costs.

mod common;

use common::{database, hint_from};
use pirouette_core::commitment::{Merkle, Proofs};
use pirouette_core::cost::{Costs, Plan, Workload, journal_limit};
use pirouette_core::database::epoch::{self, Operation};
use pirouette_core::database::flat::Database;
use pirouette_core::error::Error;
use pirouette_core::random::ChaCha;
use pirouette_core::tapir::hint::Hint;
use pirouette_core::tapir::query::{Role, query};
use pirouette_core::tapir::recon::{recon, verify};

const KINDS: [Proofs; 2] = [Proofs::Openings, Proofs::Tags];

fn costs(plan: &Plan, proofs: Proofs) -> &Costs {
    match proofs {
        Proofs::Openings => &plan.merkle,
        Proofs::Tags => &plan.tags,
    }
}

/// A database as planned, and its hint.
fn made(plan: &Plan, proofs: Proofs) -> (Database<Merkle>, Hint) {
    let content: Vec<u8> = (0..plan.layout.records() * plan.layout.record_bytes()).map(|i| (i % 251) as u8).collect();
    let mut database = database::<Merkle>(plan.layout, &content);
    let hint = hint_from(&mut database, proofs, &mut ChaCha::new(&[1; 32], 0));
    (database, hint)
}

const WORKLOADS: [(u64, u64, Option<u64>, u64); 6] = [
    (1, 32, None, 1),
    (1000, 32, None, 8),
    (1003, 7, None, 3),     // the last partition is not full
    (100, 5, Some(100), 2), // M = 1
    (100, 5, Some(1), 1),
    (70_000, 1, Some(500), 64),
];

/// Every workload as planned, with each kind of proof.
fn plans(changes: impl Fn(u64) -> u64) -> impl Iterator<Item = (Plan, Proofs)> {
    let planned = WORKLOADS.map(|(records, value_bytes, partitions, batch)| {
        let changes_per_day = changes(records);
        Plan::new(&Workload { partitions, batch, changes_per_day, ..Workload::new(records, value_bytes) }).unwrap()
    });
    planned.into_iter().flat_map(|plan| KINDS.map(|proofs| (plan.clone(), proofs)))
}

#[test]
fn hints_and_their_stored_forms_are_as_long_as_planned() {
    for (plan, proofs) in plans(|_| 0) {
        let costs = costs(&plan, proofs);
        let (_, hint) = made(&plan, proofs);
        assert_eq!(hint.parity_bytes() as u64, costs.hint_bytes);
        assert_eq!(hint.permutation_bytes() as u64, costs.permutation_bytes);
        assert_eq!(hint.tag_bytes() as u64, costs.tag_bytes);
        assert_eq!(hint.encode(&[0; 32]).unwrap().len() as u64, costs.checkpoint_bytes);
    }
}

/// A hint large enough that the least journal does not decide: what a client asks is what the plan says.
#[test]
fn checkpoints_are_due_when_planned() {
    let plan = Plan::new(&Workload::new(300_000, 1)).unwrap();
    for proofs in KINDS {
        let (_, hint) = made(&plan, proofs);
        let held = (hint.parity_bytes() + hint.permutation_bytes() + hint.tag_bytes()) as u64;
        let costs = costs(&plan, proofs);
        assert_eq!(journal_limit(held) + costs.effect_bytes, costs.journal_bytes);
    }
    assert!(plan.tags.journal_bytes > plan.merkle.journal_bytes, "tags count, and are more than the least");
}

#[test]
fn batches_and_their_stored_forms_are_as_long_as_planned() {
    const HEADER_BYTES: usize = 40;
    for (plan, proofs) in plans(|_| 0) {
        let costs = costs(&plan, proofs);
        let (database, mut hint) = made(&plan, proofs);
        let indices = vec![0; plan.workload.batch as usize];
        let mut pending = query(&mut hint, &indices, &[2; 32]).unwrap();
        assert_eq!(pending.encode(&plan.layout).len() as u64, costs.pending_bytes);
        let (mut up, mut down) = (0, 0);
        for role in [Role::Retrieve, Role::Refresh] {
            let vectors = pending.vectors(role);
            let answer = database.answer(&vectors, proofs).unwrap();
            assert!(verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap());
            up += HEADER_BYTES + vectors.len();
            down += HEADER_BYTES + answer.len();
        }
        assert_eq!((up as u64, down as u64), (costs.lookup_bytes_up, costs.lookup_bytes_down));
        let effect = recon(&mut hint, pending).map_err(|(error, _)| error).unwrap().effect;
        assert_eq!(effect.encode(&plan.layout).len() as u64, costs.effect_bytes);
    }
}

#[test]
fn update_lists_are_as_long_as_planned() {
    for (plan, proofs) in plans(|records| records.min(20)) {
        let (mut database, _) = made(&plan, proofs);
        let record = vec![0xff; plan.layout.record_bytes()]; // no byte of the contents
        let edits: Vec<_> =
            (0..plan.workload.changes_per_day as u32).map(|index| Operation::EditIndex(index, &record)).collect();
        let epoch = epoch::apply(&mut database, None, &edits).unwrap_or_else(|_| unreachable!());
        let list = match proofs {
            Proofs::Openings => &epoch.list,
            Proofs::Tags => &epoch.records,
        };
        assert_eq!(list.bytes().len() as u64, costs(&plan, proofs).update_list_bytes);
    }
}

#[test]
fn the_million_small_records_cost_what_the_architecture_says() {
    let Plan { layout, merkle, tags, recommended, .. } = Plan::new(&Workload::new(1 << 20, 32)).unwrap();
    assert_eq!((layout.partitions(), merkle.permutation_bytes, merkle.hint_bytes), (16, 2 << 20, 2 << 20));
    assert_eq!(tags.tag_bytes, 8 << 20);
    let lookup = |costs: &Costs| costs.lookup_bytes_up + costs.lookup_bytes_down;
    assert_eq!((lookup(&merkle), lookup(&tags)), (17_632, 1248)); // ≤ 18 KiB and ≤ 1.3 KiB
    assert_eq!((merkle.lookup_hashes, tags.lookup_hashes), (2 * 16 * 17, 2 * 16 + 1));
    assert_eq!((merkle.tree_bytes, tags.tree_bytes), (16 * 32 * ((2 << 16) - 1), 0));
    assert_eq!(tags.checkpoint_bytes - merkle.checkpoint_bytes, 16 + (8 << 20));
    assert_eq!(recommended, Proofs::Tags);
}

#[test]
fn tags_are_recommended_where_they_fit_and_move_less() {
    let base = Workload::new(1 << 20, 32);
    let held = Plan::new(&base).unwrap().tags.memory_bytes;
    let recommended = |workload: Workload| Plan::new(&workload).unwrap().recommended;
    assert_eq!(recommended(Workload { memory_bytes: held, ..base }), Proofs::Tags);
    assert_eq!(recommended(Workload { memory_bytes: held - 1, ..base }), Proofs::Openings);
    assert_eq!(recommended(Workload { memory_bytes: 0, ..base }), Proofs::Openings);
    // Every change costs a whole record more with tags.
    assert_eq!(recommended(Workload { changes_per_day: 10_000, ..base }), Proofs::Tags);
    assert_eq!(recommended(Workload { changes_per_day: 11_000, ..base }), Proofs::Openings);
    assert_eq!(recommended(Workload { lookups_per_day: 0, changes_per_day: 1, ..base }), Proofs::Openings);
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
    // A set of keys has values of no bytes.
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
        Workload { batch: 0, ..base },
        Workload { batch: 65, ..base },
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
