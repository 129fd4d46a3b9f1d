//! Tests blocks of several records. A query asks for a block. A record is cut out of it after the whole block was verified and
//! recovered. Other tests run at every g, and show that packed databases are updated, stored and looked up as others are
//! (living.rs, state.rs, local.rs, any_of_k.rs, instant.rs).

use crate::common::{finish, hint_of, random, verdicts_tell};
use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::error::Error;
use keyhush_core::instant;
use keyhush_core::layout::Layout;
use keyhush_core::tapir::query::{Role, query};
use keyhush_core::tapir::recon::verify;

const RECORD_BYTES: usize = 3;

/// 13 records of three bytes, four in a block and eight in a partition: the last block has one record.
fn packed() -> (Database<Merkle>, Vec<u8>) {
    random(Layout::packed(13, RECORD_BYTES as u64, 2, 8, 4).unwrap(), 7)
}

/// Whether a client that asks for a record accepts a reply of `reply_bytes` that is off by a difference.
struct Client<'a> {
    accepts: &'a dyn Fn(u32, &[u8]) -> bool,
    reply_bytes: usize,
    /// where the bytes of a block are in a reply
    blocks: Vec<usize>,
}

impl Client<'_> {
    /// The same client, if it checked only the wanted slot of each block.
    fn checks_its_own_record(&self, layout: &Layout, index: u32, difference: &[u8]) -> bool {
        let mut looked_at = difference.to_vec();
        for &start in &self.blocks {
            let (slot, block) = (layout.slot(index), &mut looked_at[start..start + layout.record_bytes()]);
            block[..slot.start].fill(0);
            block[slot.end..].fill(0);
        }
        (self.accepts)(index, &looked_at)
    }

    fn assert_that_only_a_faulty_one_tells(&self, layout: &Layout) {
        assert!((self.accepts)(0, &vec![0; self.reply_bytes]), "an honest reply is accepted");
        assert!(!verdicts_tell(layout.records(), self.reply_bytes, self.accepts));
        let planted = |index, difference: &[u8]| self.checks_its_own_record(layout, index, difference);
        assert!(
            verdicts_tell(layout.records(), self.reply_bytes, planted),
            "the enumeration must see a client that checks its own record"
        );
    }
}

fn xor(into: &mut [u8], difference: &[u8]) {
    into.iter_mut().zip(difference).for_each(|(byte, difference)| *byte ^= difference);
}

#[test]
fn no_verdict_on_an_answer_depends_on_the_place_in_the_block() {
    let (database, _) = packed();
    let layout = *database.layout();
    for proofs in [Proofs::Openings, Proofs::Tags] {
        for role in [Role::Retrieve, Role::Refresh] {
            let accepts = |index: u32, difference: &[u8]| {
                let mut hint = hint_of(&database, proofs, [7; 32]);
                let mut pending = query(&mut hint, &[index], &[1; 32]).unwrap();
                let mut answer = database.answer(&pending.vectors(role), proofs).unwrap();
                xor(&mut answer, difference);
                verify::<Merkle>(&mut hint, &mut pending, role, &answer).unwrap()
            };
            let entry_bytes = proofs.entry_bytes::<Merkle>(&layout);
            let blocks = (0..layout.partitions()).map(|q| q * entry_bytes).collect();
            let reply_bytes = proofs.answer_bytes::<Merkle>(&layout, 1);
            Client { accepts: &accepts, reply_bytes, blocks }.assert_that_only_a_faulty_one_tells(&layout);
        }
    }
}

#[test]
fn no_verdict_on_an_instant_answer_depends_on_the_place_in_the_block() {
    let (database, _) = packed();
    let layout = *database.layout();
    let commitments = database.commitments().unwrap();
    let accepts = |index: u32, difference: &[u8]| {
        let pending = instant::query::query(&layout, &[index], &[2; 32]).unwrap();
        let [mut a, b] = [0, 1].map(|server| {
            let request = pending.request(server).unwrap();
            instant::pass::answer(&database, &[(request, At::Newest)]).unwrap().remove(0)
        });
        xor(&mut a, difference);
        instant::recon::recon(&pending, &commitments, &[&a, &b]).unwrap().is_some()
    };
    // Here a group is the whole partition: two blocks.
    let blocks = vec![0, layout.record_bytes()];
    let reply_bytes = instant::answer_bytes(&layout);
    assert_eq!(reply_bytes, 2 * layout.record_bytes());
    Client { accepts: &accepts, reply_bytes, blocks }.assert_that_only_a_faulty_one_tells(&layout);
}

/// P4: two records share nothing because they are in one block.
#[test]
fn records_of_one_block_are_as_many_queries() {
    let (database, content) = packed();
    let layout = *database.layout();
    let record = |index: u32| &content[index as usize * RECORD_BYTES..][..RECORD_BYTES];
    for proofs in [Proofs::Openings, Proofs::Tags] {
        let mut hint = hint_of(&database, proofs, [7; 32]);
        for (round, indices) in [[4, 5, 7], [4, 9, 12], [12, 12, 12], [0, 4, 8]].iter().enumerate() {
            let pending = query(&mut hint, indices, &[round as u8; 32]).unwrap();
            for role in [Role::Retrieve, Role::Refresh] {
                assert_eq!(pending.vectors(role).len(), 3 * 2 * layout.partitions());
            }
            let expected: Vec<u8> = indices.iter().flat_map(|&index| record(index)).copied().collect();
            assert_eq!(finish(&database, &mut hint, pending), expected);
        }
    }
    let pending = instant::query::query(&layout, &[4, 5], &[3; 32]).unwrap();
    assert_eq!(pending.request(0).unwrap().len(), 2 * instant::request_bytes(&layout));
}

#[test]
fn impossible_blocks_are_refused() {
    for (n, l, q, m, g) in [
        (8, 4, 2, 8, 0),
        (8, 4, 2, 8, 3),       // no power of two
        (8, 4, 2, 6, 4),       // a partition of one and a half
        (8, 4, 2, 2, 4),       // of half a block
        (1, 257, 1, 256, 256), // too long
        (1, 1, 1, 1 << 18, 2), // offsets would not fit a u16
        (17, 4, 2, 8, 4),      // more records than there is room for
    ] {
        assert!(matches!(Layout::packed(n, l, q, m, g), Err(Error::Layout(_))), "{n} {l} {q} {m} {g}");
    }
    let longest = Layout::packed(1, 1, 1, 1 << 16, 1 << 16).unwrap();
    assert_eq!((longest.partition_records(), longest.record_bytes(), longest.depth()), (1, 65_536, 0));
    let most = Layout::packed(1, 1, 1, 1 << 17, 2).unwrap();
    assert_eq!((most.partition_records(), most.record_bytes(), most.depth()), (65_536, 2, 16));
}
