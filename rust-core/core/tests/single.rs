//! Tests lookups with one server over whole databases: against a plain map, with edits and growth between lookups, and through
//! every stored form. Every lie is refused in the same way.

use std::collections::HashMap;

use crate::common::{keep, random, resealed, sealed, thorough, torn};
use keyhush_core::Error;
use keyhush_core::commitment::Merkle;
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::list::UpdateList;
use keyhush_core::layout::Layout;
use keyhush_core::random::{ChaCha, Uniform};
use keyhush_core::scheme::{Asked, Verdict};
use keyhush_core::single::geometry::Geometry;
use keyhush_core::single::hint::Hint;
use keyhush_core::single::making::Builder;
use keyhush_core::single::state::checkpoint::Reopening;
use keyhush_core::single::{NamedRow, RowName};
use keyhush_core::stored::{Form, update_in};
use keyhush_core::suites::{answer, answer_bytes, suites};

const SUITE: u16 = 3;
const BINDING: [u8; 32] = [7; 32];

type Client = Asked<Merkle, Hint>;

fn server(layout: Layout, seed: u8) -> Database<Merkle> {
    random(layout, seed).0
}

/// These partitions, one after the other.
fn receive_all(builder: &mut Builder, database: &Database<Merkle>, partitions: impl IntoIterator<Item = usize>) {
    for q in partitions {
        assert!(keep(builder, 0, q, database.partition(q).unwrap()));
    }
}

fn finished(builder: Builder, version: u64) -> Hint {
    builder.finish_at(version).map_err(|(error, _)| error).unwrap()
}

/// Fills these records with the byte.
fn edit(database: &mut Database<Merkle>, indices: impl IntoIterator<Item = u32>, byte: u8) -> UpdateList {
    let record = vec![byte; database.layout().stored().record_bytes];
    let edits: Vec<_> = indices.into_iter().map(|index| Operation::EditIndex(index, &record)).collect();
    apply(database, None, &edits).unwrap().list
}

/// The entry of the journal.
fn follow(client: &mut Client, database: &Database<Merkle>, list: &UpdateList) -> Vec<u8> {
    client.update(list.bytes(), *database.layout(), &[], &[0; 32]).unwrap()
}

/// What it holds is what one that is made now would: all hints, all pairs, all tags.
fn assert_agrees(hint: &mut Hint, database: &Database<Merkle>) {
    let (m, bytes) = (database.layout().partition_records(), database.layout().record_bytes());
    assert!(hint.hazmat_agrees_with(&mut |slot| {
        database.partition(slot / m).unwrap()[slot % m * bytes..][..bytes].to_vec()
    }));
}

fn builder(database: &Database<Merkle>, lookups: usize, entropy: u8) -> Builder {
    Builder::new(*database.layout(), &database.content_hashes().unwrap(), lookups, [entropy; 32]).unwrap()
}

fn client(database: &Database<Merkle>, lookups: usize, entropy: u8) -> Client {
    let mut builder = builder(database, lookups, entropy);
    for q in 0..database.layout().partitions() {
        assert!(keep(&mut builder, q % 2, q, database.partition(q).unwrap()));
    }
    Asked::new(finished(builder, 0))
}

fn ask(database: &Database<Merkle>, client: &Client) -> Vec<u8> {
    answer(SUITE, database, &client.request(0).unwrap(), At::Newest).unwrap()
}

/// Looks up indices, and finds every record. Returns the records.
fn look_up(database: &Database<Merkle>, client: &mut Client, indices: &[u32], entropy: &[u8; 32]) -> Vec<u8> {
    client.query(indices, entropy).unwrap();
    let reply = ask(database, client);
    assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
    let records = client.recon().unwrap();
    assert_eq!(client.missed(), 0);
    records
}

fn expected(database: &Database<Merkle>, indices: &[u32]) -> Vec<u8> {
    indices.iter().flat_map(|&index| database.record(index as usize).unwrap().to_vec()).collect()
}

fn reopened(client: &mut Client) -> Client {
    let stored = client.encode(&BINDING).unwrap();
    let mut again = Asked::new(Hint::decode(&stored, *client.state.layout(), &BINDING).unwrap());
    assert_eq!(again.encode(&BINDING).unwrap(), stored);
    again
}

/// Single records and blocks, long and short ones, stripes that lie in two partitions, padding after the last record.
fn layouts() -> [Layout; 4] {
    [
        Layout::new(4096, 32, 16, 256).unwrap(),
        Layout::new(3001, 9, 7, 451).unwrap(),
        Layout::packed(4000, 5, 9, 452, 4).unwrap(),
        Layout::new(700, 300, 3, 250).unwrap(),
    ]
}

/// All lookups of four hints, to the last backup.
#[test]
fn thousands_of_lookups_with_edits_between_them_are_those_of_a_plain_map() {
    let rounds = if thorough() { 700 } else { 350u32 };
    let queries = |round: u32| round % 4 + 1 + if round.is_multiple_of(7) { 3 } else { 0 };
    for (number, layout) in layouts().into_iter().enumerate() {
        let seed = number as u8;
        println!("seed {seed}");
        let mut source = ChaCha::new(&[seed; 32], 1);
        let mut database = server(layout, seed);
        let mut client = client(&database, (0..rounds).map(queries).sum::<u32>() as usize, seed);
        let mut behind = reopened(&mut client); // follows by the journal alone
        for round in 0..rounds {
            let records = layout.records() as u32;
            // Often the same record again, in one lookup and in several.
            let mut index = || if source.below(3) == 0 { 5 } else { source.below(records) };
            let mut indices: Vec<u32> = (0..=round % 4).map(|_| index()).collect();
            indices.resize(queries(round) as usize, indices[0]);
            let mut entropy = [0; 32];
            ChaCha::new(&[seed; 32], u64::from(round) + 2).fill(&mut entropy);
            client.query(&indices, &entropy).unwrap();
            if round % 5 == 1 {
                // A stored lookup is the same lookup.
                let (stored, name, request) =
                    (client.pending_bytes().unwrap(), client.pending_name().unwrap(), client.request(0).unwrap());
                client.withdraw();
                client.resume(&stored).unwrap();
                assert_eq!((client.pending_name().unwrap(), client.request(0).unwrap()), (name, request));
            }
            if round % 3 == 0 {
                // The database changes while it is pending, before and after it was answered.
                if round % 2 == 0 {
                    let reply = ask(&database, &client);
                    assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
                }
                let before = ask(&database, &client);
                let edits: Vec<(u32, Vec<u8>)> = (0..=source.below(40))
                    .map(|_| {
                        let mut record = vec![0; layout.stored().record_bytes];
                        source.fill(&mut record);
                        (source.below(records), record)
                    })
                    .collect();
                let operations: Vec<_> =
                    edits.iter().map(|(index, record)| Operation::EditIndex(*index, record)).collect();
                let epoch = apply(&mut database, None, &operations).unwrap();
                let previous = answer(SUITE, &database, &client.request(0).unwrap(), At::Previous);
                assert_eq!(previous.unwrap(), before, "the epoch before is answered still");
                let entry = client.update(epoch.list.bytes(), layout, &[], &[0; 32]).unwrap();
                behind.replay(&entry).unwrap();
            }
            let reply = ask(&database, &client);
            assert_eq!(reply.len(), answer_bytes(SUITE, &database, indices.len(), At::Newest).unwrap());
            assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
            assert_eq!(client.recon().unwrap(), expected(&database, &indices), "round {round}");
            assert_eq!(client.missed(), 0);
            let effect = client.take_effect().unwrap();
            assert!(update_in(&effect, &layout).unwrap().is_none(), "nothing for a directory to follow");
            assert!(behind.replay(&effect[..effect.len() - 1]).is_err());
            behind.replay(&effect).unwrap();
            assert!(matches!(behind.replay(&effect), Err(Error::State(_))), "once");
            if round % 50 == 49 {
                assert_eq!(behind.encode(&BINDING).unwrap(), client.encode(&BINDING).unwrap());
                client = reopened(&mut client);
            }
        }
        assert_eq!(client.state.left(), 0);
        assert_agrees(&mut client.state, &database);
    }
}

#[test]
fn hints_that_take_several_steps_for_the_same_stripes_are_right() {
    let layout = Layout::new(1 << 14, 8, 2, 1 << 13).unwrap();
    let database = server(layout, 1);
    let mut builder = builder(&database, 300, 1);
    while builder.step().unwrap() {}
    for q in 0..2 {
        assert!(keep(&mut builder, 0, q, database.partition(q).unwrap()));
        let mut steps = 1;
        while builder.step().unwrap() {
            steps += 1;
        }
        // The tags; the stripes, which are folded together, for 2^16 of their values a step; the rest.
        assert_eq!(steps, 1 + 8 + 1, "of partition {q}");
    }
    let mut hint = finished(builder, 0);
    assert_agrees(&mut hint, &database);
}

// ---- tags in rows ---------------------------------------------------------------------------------------------

/// Stores rows.
#[derive(Default)]
struct Keeper(HashMap<RowName, Vec<u8>>);

impl Keeper {
    fn keep(&mut self, row: NamedRow) -> RowName {
        self.0.insert(row.name, row.bytes);
        row.name
    }

    fn drain(&mut self, builder: &mut Builder) {
        while let Some(row) = builder.next_row() {
            let name = self.keep(row);
            builder.kept(&name);
        }
    }

    fn provide(&self, client: &mut Client) {
        let wanted = client.with_pending(|hint, pending| Ok(pending.wants(hint))).unwrap();
        assert_eq!(wanted.len(), client.pending(), "one a query");
        for name in wanted {
            client.with_pending(|hint, pending| pending.hold(hint, &self.0[&name])).unwrap();
        }
    }

    /// The work before a checkpoint: renews rows, and drops rows that nothing names any more. Returns how many were renewed.
    fn renew(&mut self, client: &mut Client) -> usize {
        let mut renewed = 0;
        while let Some(name) = client.state.stale(renewed > 0) {
            let row = client.renewed(&self.0[&name]).unwrap();
            self.keep(row);
            client.renew().unwrap();
            renewed += 1;
        }
        self.0.retain(|name, _| client.state.rows().contains(name));
        renewed
    }
}

/// Looks up one record, with tags in rows.
fn look_up_in(keeper: &Keeper, database: &Database<Merkle>, client: &mut Client, index: u32) -> Vec<u8> {
    client.query(&[index], &[3; 32]).unwrap();
    keeper.provide(client);
    assert_eq!(client.verify(0, &ask(database, client)), Ok(Verdict::Genuine));
    client.recon().unwrap()
}

fn in_rows(database: &Database<Merkle>, lookups: usize, entropy: u8, keeper: &mut Keeper) -> Builder {
    let mut builder = builder(database, lookups, entropy);
    builder.hazmat_in_rows(true);
    for q in 0..database.layout().partitions() {
        assert!(keep(&mut builder, q % 2, q, database.partition(q).unwrap()));
        while builder.step().unwrap() {}
        keeper.drain(&mut builder);
    }
    builder
}

/// With the same entropy, edits and lookups, the same bytes are sent and the same records found, through every stored form.
#[test]
fn tags_in_rows_do_what_tags_in_memory_do() {
    let (mut renewed, mut most_open) = (0, 0);
    for (number, layout) in layouts().into_iter().enumerate() {
        let seed = 90 + number as u8;
        let mut source = ChaCha::new(&[seed; 32], 1);
        let mut database = server(layout, seed);
        let mut held = client(&database, 900, seed);
        let mut keeper = Keeper::default();
        let mut kept = Asked::new(finished(in_rows(&database, 900, seed, &mut keeper), 0));
        assert_eq!((kept.state.rows().len(), held.state.rows().len()), (kept.state.geometry().stripes(), 0));
        assert_eq!(kept.state.tag_bytes(), 0);
        let mut behind: Option<Client> = None;
        for round in 0..if thorough() { 100 } else { 40u32 } {
            let records = layout.records() as u32;
            let mut indices: Vec<u32> = (0..=round % 3).map(|_| source.below(records)).collect();
            indices.extend_from_slice(&[indices[0], indices[0] / 2]); // one stripe twice
            let entropy = [round as u8; 32];
            for client in [&mut held, &mut kept] {
                client.query(&indices, &entropy).unwrap();
            }
            assert_eq!(held.request(0).unwrap(), kept.request(0).unwrap());
            if round % 2 == 0 {
                keeper.provide(&mut kept); // before an update, or after
            }
            if round % 3 == 0 {
                let edits: Vec<_> = (0..=source.below(60)).map(|_| source.below(records)).collect();
                let list = edit(&mut database, edits.into_iter().chain(indices.clone()), round as u8 + 1);
                let entry = follow(&mut kept, &database, &list);
                follow(&mut held, &database, &list);
                if let Some(behind) = &mut behind {
                    behind.replay(&entry).unwrap();
                }
            }
            let reply = ask(&database, &kept);
            assert_eq!(reply, ask(&database, &held));
            if round % 2 == 1 {
                assert!(matches!(kept.verify(0, &reply), Err(Error::Phase(_))), "without rows nothing is judged");
                keeper.provide(&mut kept);
            }
            for client in [&mut held, &mut kept] {
                assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
                assert_eq!(client.recon().unwrap(), expected(&database, &indices), "round {round}");
            }
            let effect = kept.take_effect().unwrap();
            assert_eq!(effect, held.take_effect().unwrap());
            if let Some(behind) = &mut behind {
                behind.replay(&effect).unwrap(); // it needs no row
                assert_eq!(behind.encode(&BINDING).unwrap(), kept.encode(&BINDING).unwrap());
            }
            if round % 20 == 19 {
                renewed += keeper.renew(&mut kept);
                assert_eq!(keeper.0.len(), kept.state.rows().len());
                kept = reopened(&mut kept);
                behind = Some(reopened(&mut kept));
            }
        }
        for client in [&mut held, &mut kept] {
            assert_agrees(&mut client.state, &database);
        }
        most_open = most_open.max(kept.state.tag_bytes());
    }
    println!("{renewed} rows made anew, {most_open} bytes of changes at most");
    assert!(renewed > 0);
}

#[test]
fn making_rows_may_be_interrupted_and_overtaken_by_updates() {
    for (number, layout) in layouts().into_iter().enumerate() {
        let mut database = server(layout, 50 + number as u8);
        let mut keeper = Keeper::default();
        let mut half = builder(&database, 20, 9);
        half.hazmat_in_rows(true);
        let q = layout.partitions();
        for partition in [2, 0] {
            assert!(keep(&mut half, 0, partition, database.partition(partition).unwrap()));
            while half.step().unwrap() {}
            // A row that was returned but not stored is still in memory. If the builder is stored now, its form has the row.
            if partition == 2 {
                keeper.drain(&mut half);
            }
        }
        let stored = half.encode(&BINDING).unwrap();
        let mut resumed = Builder::decode(&stored, layout, &database.content_hashes().unwrap(), &BINDING).unwrap();
        assert_eq!(resumed.encode(&BINDING).unwrap(), stored);
        let m = layout.stored().partition_records as u32;
        let before = resumed.next_row();
        let list = edit(&mut database, [0, 1, m, 2 * m, 2 * m + 3, layout.records() as u32 - 1], 0xab);
        resumed.update(&list, &database.content_hashes().unwrap()).unwrap();
        if let Some(row) = before {
            resumed.kept(&row.name); // it may have changed, and is not kept then
        }
        for partition in (0..q).filter(|partition| ![0, 2].contains(partition)) {
            let (error, again) = resumed.finish_at(1).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Phase(_)));
            resumed = again;
            assert!(keep(&mut resumed, 0, partition, database.partition(partition).unwrap()));
        }
        let (error, mut resumed) = resumed.finish_at(1).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Phase(_)), "rows have not been kept");
        keeper.drain(&mut resumed);
        let mut made = finished(resumed, 1);
        assert_agrees(&mut made, &database);
        let mut client: Client = Asked::new(made);
        client.query(&[5, 0], &[1; 32]).unwrap();
        keeper.0.retain(|name, _| client.state.rows().contains(name));
        keeper.provide(&mut client);
        assert_eq!(client.verify(0, &ask(&database, &client)), Ok(Verdict::Genuine));
        assert_eq!(client.recon().unwrap(), expected(&database, &[5, 0]));
    }
}

/// A row that is damaged, or of another stripe or time, is refused, and no verdict follows from it.
#[test]
fn a_row_that_is_another_is_an_error_of_its_own_and_condemns_nobody() {
    let layout = Layout::new(4096, 32, 16, 256).unwrap();
    let mut database = server(layout, 31);
    let mut keeper = Keeper::default();
    let mut client = Asked::new(finished(in_rows(&database, 20, 4, &mut keeper), 0));
    client.query(&[700], &[1; 32]).unwrap();
    let wanted = client.with_pending(|hint, pending| Ok(pending.wants(hint))).unwrap();
    let genuine = keeper.0[&wanted[0]].clone();
    let hold = |client: &mut Client, row: &[u8]| client.with_pending(|hint, pending| pending.hold(hint, row));
    for bit in [0, 13, genuine.len() * 8 - 1] {
        let mut row = genuine.clone();
        row[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(hold(&mut client, &row), Err(Error::State(_))));
    }
    let other = keeper.0.iter().find(|(name, _)| **name != wanted[0]).unwrap().1.clone();
    for row in [&other[..], &genuine[8..], &[]] {
        assert!(matches!(hold(&mut client, row), Err(Error::State(_))));
    }
    let reply = ask(&database, &client);
    assert!(matches!(client.verify(0, &reply), Err(Error::Phase(_))));
    assert!(!client.state.is_condemned());
    hold(&mut client, &genuine).unwrap();
    assert!(matches!(hold(&mut client, &genuine), Err(Error::Phase(_))), "one a query");
    for bit in (0..reply.len() * 8).step_by(if thorough() { 7 } else { 97 }) {
        let mut client = Asked::new(finished(in_rows(&database, 20, 4, &mut Keeper::default()), 0));
        client.query(&[700], &[1; 32]).unwrap();
        hold(&mut client, &genuine).unwrap();
        let mut lie = reply.clone();
        lie[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(client.verify(0, &lie), Ok(Verdict::Forged), "bit {bit}");
    }
    assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
    client.recon().unwrap();

    // A row from before an edit, which was renewed since, is not the newest row.
    edit_many(&mut database, &mut client, 9);
    let name = client.state.stale(false).unwrap();
    assert!(matches!(client.renewed(&other[1..]), Err(Error::State(_))));
    let before = keeper.0[&name].clone();
    let row = client.renewed(&before).unwrap();
    assert_ne!(row.name, name);
    client.renew().unwrap();
    assert!(client.state.stale(true).is_some_and(|next| next != name));
    client.query(&[0], &[2; 32]).unwrap();
    assert!(matches!(hold(&mut client, &before), Err(Error::State(_))));
    hold(&mut client, &row.bytes).unwrap();
    assert_eq!(client.verify(0, &ask(&database, &client)), Ok(Verdict::Genuine));
    assert_eq!(client.recon().unwrap(), expected(&database, &[0]));
}

/// Edits every seventh record, in the server and in the hint.
fn edit_many(database: &mut Database<Merkle>, client: &mut Client, byte: u8) {
    let records = database.layout().records() as u32;
    let list = edit(database, (0..records).step_by(7), byte);
    follow(client, database, &list);
}

/// Changes by updates are added to the row that a lookup holds, when the answer is judged. If a newer row took its place meanwhile,
/// an honest answer would look forged.
#[test]
fn no_row_is_made_anew_while_a_lookup_holds_one() {
    let mut database = server(Layout::new(4096, 32, 16, 256).unwrap(), 32);
    let mut keeper = Keeper::default();
    let mut client = Asked::new(finished(in_rows(&database, 20, 5, &mut keeper), 0));
    assert!(matches!(client.renew(), Err(Error::Phase(_))), "none was made");
    edit_many(&mut database, &mut client, 1);
    let name = client.state.stale(false).unwrap();
    assert_eq!(client.state.rows()[0], name);
    let row = client.renewed(&keeper.0[&name]).unwrap();
    client.query(&[0], &[1; 32]).unwrap(); // of that stripe
    keeper.provide(&mut client);
    assert!(matches!(client.renew(), Err(Error::Phase(_))));
    assert!(matches!(client.renewed(&keeper.0[&name]), Err(Error::Phase(_))));
    assert_eq!(client.state.rows()[0], name, "the one that was read");
    edit_many(&mut database, &mut client, 2);
    assert_eq!(client.verify(0, &ask(&database, &client)), Ok(Verdict::Genuine));
    assert_eq!(client.recon().unwrap(), expected(&database, &[0]));
    // Changes since the row was made are not in it, and stay.
    let made = keeper.keep(row);
    client.renew().unwrap();
    assert_eq!(client.state.rows()[0], made);
    assert_eq!(look_up_in(&keeper, &database, &mut client, 0), expected(&database, &[0]));
    assert!(keeper.renew(&mut client) > 1);
    assert_agrees(&mut client.state, &database);
}

#[test]
fn partitions_come_in_any_order_and_making_may_be_interrupted_and_overtaken_by_updates() {
    for (number, layout) in layouts().into_iter().enumerate() {
        let mut database = server(layout, 40 + number as u8);
        let mut straight = client(&database, 50, 9);
        let mut interrupted = builder(&database, 50, 9);
        let q = layout.partitions();
        for partition in [2, 0] {
            let bytes = database.partition(partition).unwrap().to_vec();
            let mut bad = bytes.clone();
            bad[3] ^= 4;
            assert!(!keep(&mut interrupted, 1, partition, &bad), "another hash");
            assert!(!interrupted.is_folded(partition).unwrap());
            assert!(keep(&mut interrupted, 0, partition, &bytes));
            assert!(matches!(interrupted.begin(1, partition), Err(Error::Phase(_))), "there already");
        }
        let hashes = database.content_hashes().unwrap();
        // Before drawing has ended, the form is a few bytes, from which the same is drawn again.
        let mut early = builder(&database, 50, 9);
        assert!(early.step().unwrap());
        let drawn = early.encode(&BINDING).unwrap();
        assert!(drawn.len() < 256);
        let mut early = Builder::decode(&drawn, layout, &hashes, &BINDING).unwrap();
        assert_eq!(early.hint_id(), interrupted.hint_id());

        let stored = interrupted.encode(&BINDING).unwrap();
        let mut resumed = Builder::decode(&stored, layout, &hashes, &BINDING).unwrap();
        assert_eq!(resumed.encode(&BINDING).unwrap(), stored);
        assert_eq!(resumed.hint_id(), interrupted.hint_id());
        let (error, mut resumed) = resumed.finish_at(0).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Phase(_)), "partitions are missing");

        // One of two copies goes on at once. The other gets an update of folded and of missing partitions first.
        receive_all(&mut interrupted, &database, (0..q).filter(|partition| ![0, 2].contains(partition)));
        let mut whole = finished(interrupted, 0);
        assert_eq!(whole.encode(&BINDING).unwrap(), straight.encode(&BINDING).unwrap());

        resumed.begin(0, 1).unwrap();
        // Kept, and not folded yet: they change as folded ones do.
        let mut kept = builder(&database, 50, 9);
        receive_all(&mut kept, &database, [2, 0]);
        let m = layout.stored().partition_records as u32;
        let list = edit(&mut database, [0, 1, m, layout.records() as u32 - 1], 0xab);
        for builder in [&mut resumed, &mut early, &mut kept] {
            builder.update(&list, &database.content_hashes().unwrap()).unwrap();
        }
        assert!(matches!(resumed.absorb(0, 1), Err(Error::Phase(_))), "given up: it changed");
        let missing = |builder: &mut Builder| {
            receive_all(builder, &database, (0..q).filter(|partition| ![0, 2].contains(partition)));
        };
        missing(&mut resumed);
        missing(&mut kept);
        let [mut made, mut kept] = [resumed, kept].map(|builder| finished(builder, 1));
        let mut anew = builder(&database, 50, 9);
        receive_all(&mut anew, &database, 0..q);
        let mut anew = finished(anew, 1);
        assert_eq!(made.encode(&BINDING).unwrap(), anew.encode(&BINDING).unwrap());
        assert_eq!(kept.encode(&BINDING).unwrap(), anew.encode(&BINDING).unwrap());
        receive_all(&mut early, &database, 0..q);
        let mut early = finished(early, 1);
        assert_eq!(early.encode(&BINDING).unwrap(), anew.encode(&BINDING).unwrap());
        // A copy that was whole gives the same after the update.
        let mut followed = straight;
        follow(&mut followed, &database, &list);
        assert_eq!(followed.encode(&BINDING).unwrap(), anew.encode(&BINDING).unwrap());
    }
}

/// Most of an update's work is divided into steps, so that a page stays responsive. Calls that need it finished do the rest.
#[test]
fn an_update_in_steps_is_the_same_wherever_it_is_interrupted() {
    let layout = Layout::plan(1 << 16, 32, None).unwrap();
    let mut database = server(layout, 61);
    let before = client(&database, 50, 9).encode(&BINDING).unwrap();
    let lists = [0, 1].map(|round| edit(&mut database, (0..500).map(|n| n * 131 + round), round as u8 + 1));
    let at_start = || Asked::new(Hint::decode(&before, layout, &BINDING).unwrap());
    let mut straight = at_start();
    for list in &lists {
        follow(&mut straight, &database, list);
    }
    let updated = straight.encode(&BINDING).unwrap();
    look_up(&database, &mut straight, &[131, 9], &[2; 32]);
    let (effect, asked) = (straight.take_effect().unwrap(), straight.encode(&BINDING).unwrap());

    let mut most = 0;
    for steps in (0..8).step_by(if thorough() { 1 } else { 3 }) {
        let mut stepped = |list: &UpdateList, client: &mut Client| {
            let entry = follow(client, &database, list);
            most = most.max((0..steps).take_while(|_| client.state.step()).count());
            entry
        };
        // Between the steps come another update, a checkpoint, a lookup, a journal entry.
        let mut client = at_start();
        let entries: Vec<_> = lists.iter().map(|list| stepped(list, &mut client)).collect();
        assert_eq!(client.encode(&BINDING).unwrap(), updated);
        let mut client = at_start();
        for list in &lists {
            stepped(list, &mut client);
        }
        assert_eq!(look_up(&database, &mut client, &[131, 9], &[2; 32]), expected(&database, &[131, 9]));
        assert_eq!(client.encode(&BINDING).unwrap(), asked);
        let mut client = at_start();
        for entry in &entries {
            client.replay(entry).unwrap();
            for _ in 0..steps {
                client.state.step();
            }
        }
        client.replay(&effect).unwrap();
        assert_eq!(client.encode(&BINDING).unwrap(), asked);
    }
    assert!(most >= 3, "{most}: it was not cut");
}

/// Waiting epochs are applied together. Lookups of a journal between them cause no additional work.
#[test]
fn updates_that_wait_are_one_pass_whatever_was_looked_up_between_them() {
    // `npm test` takes fewer stripes.
    let layout = Layout::plan(if thorough() { 1 << 14 } else { 1 << 12 }, 32, None).unwrap();
    let mut database = server(layout, 67);
    let mut straight = client(&database, 300, 9);
    let edited = layout.records() as u32 / 32;
    let before = straight.encode(&BINDING).unwrap();
    let mut journal = Vec::new();
    for round in 0..4u8 {
        let list = edit(&mut database, (0..edited).map(|n| n * 31 + u32::from(round % 3)), round + 1);
        journal.push(follow(&mut straight, &database, &list));
        while straight.state.step() {}
        let indices: Vec<u32> = (0..15).map(|n| n * 31 + u32::from(round)).collect();
        assert_eq!(look_up(&database, &mut straight, &indices, &[round; 32]), expected(&database, &indices));
        journal.push(straight.take_effect().unwrap());
    }
    let after = straight.encode(&BINDING).unwrap();
    let replayed = |between: usize| {
        let mut client: Client = Asked::new(Hint::decode(&before, layout, &BINDING).unwrap());
        for entry in &journal {
            client.replay(entry).unwrap();
            for _ in 0..between {
                client.state.step();
            }
        }
        let mut left = 0;
        while client.state.step() {
            left += 1;
        }
        assert_agrees(&mut client.state, &database);
        assert_eq!(client.encode(&BINDING).unwrap(), after);
        left
    };
    let mut one: Client = Asked::new(Hint::decode(&before, layout, &BINDING).unwrap());
    one.replay(&journal[0]).unwrap();
    let mut steps = 0;
    while one.state.step() {
        steps += 1;
    }
    assert_eq!(replayed(0), steps, "all stripes once, as for the first of them alone");
    for between in [1, 2, steps] {
        replayed(between);
    }
}

#[test]
fn a_database_grows_within_its_stripes_and_not_beyond() {
    let layout = Layout::new(1000, 8, 5, 200).unwrap(); // 1000 slots
    let mut database = server(layout, 77);
    let mut client = client(&database, 100, 1);
    let geometry = *client.state.geometry();
    assert_eq!((geometry.stripes(), geometry.stripe_records()), (64, 16));
    client.query(&[999], &[0; 32]).unwrap();
    let record = [5; 8];
    let list = apply(&mut database, None, &[Operation::Add(&record)]).unwrap().list;
    assert!(matches!(client.update(list.bytes(), *database.layout(), &[], &[0; 32]), Err(Error::Update(_))));
    let reply = answer(SUITE, &database, &client.request(0).unwrap(), At::Previous).unwrap();
    assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine), "nothing has changed");

    let layout = Layout::new(1000, 8, 6, 200).unwrap();
    let mut database = server(layout, 78);
    let mut client = self::client(&database, 100, 1);
    let adds: Vec<_> = (0..200).map(|_| Operation::Add(&record)).collect();
    let list = apply(&mut database, None, &adds).unwrap().list;
    follow(&mut client, &database, &list);
    assert_eq!(look_up(&database, &mut client, &[1199, 3], &[2; 32]), expected(&database, &[1199, 3]));
    assert!(matches!(client.query(&[1200], &[0; 32]), Err(Error::Index { .. })));
}

#[test]
fn it_runs_out_and_says_so() {
    let database = server(Layout::new(64, 4, 2, 32).unwrap(), 3);
    let mut client = client(&database, 5, 1);
    assert_eq!(keyhush_core::scheme::State::<Merkle>::remaining(&client.state), Some(5));
    assert_eq!(look_up(&database, &mut client, &[1, 2, 1], &[1; 32]), expected(&database, &[1, 2, 1]));
    assert!(matches!(client.query(&[1, 2, 3], &[1; 32]), Err(Error::Phase(_))));
    assert_eq!(look_up(&database, &mut client, &[1, 63], &[2; 32]), expected(&database, &[1, 63]));
    assert!(matches!(client.query(&[1], &[1; 32]), Err(Error::Phase(_))));
    assert_eq!(client.state.left(), 0);
    reopened(&mut client);
    let hashes = database.content_hashes().unwrap();
    for lookups in [0, usize::MAX] {
        assert!(matches!(Builder::new(*database.layout(), &hashes, lookups, [0; 32]).err(), Some(Error::Index { .. })));
    }
}

/// Flips each bit of either parity, whatever is asked: refused with the same error, and the hint is never used again.
#[test]
fn every_lie_is_refused_for_every_index_in_one_way() {
    let database = server(Layout::new(40, 3, 2, 20).unwrap(), 6);
    for index in 0..40 {
        let mut client = client(&database, 2, 4);
        client.query(&[index, (index + 7) % 40], &[index as u8; 32]).unwrap();
        let stored = client.encode(&BINDING).err();
        assert!(matches!(stored, Some(Error::Phase(_))));
        let genuine = ask(&database, &client);
        assert_eq!(client.request(0).unwrap().len(), 2 * client.state.geometry().query_bytes());
        for bit in 0..genuine.len() * 8 {
            let mut client = self::client_like(&client, &database);
            let mut reply = genuine.clone();
            reply[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(client.verify(0, &reply), Ok(Verdict::Forged), "index {index}, bit {bit}");
            assert!(matches!(client.verify(0, &genuine), Err(Error::Condemned)));
            assert!(matches!(client.recon(), Err(Error::Condemned)));
            client.withdraw();
            assert!(matches!(client.query(&[0], &[0; 32]), Err(Error::Condemned)));
            assert!(matches!(client.encode(&BINDING), Err(Error::Condemned)));
        }
        for length in [0, genuine.len() - 1, genuine.len() + 1] {
            let reply = vec![0; length];
            assert!(matches!(client.verify(0, &reply), Err(Error::Length { .. })));
        }
        assert!(matches!(client.verify(1, &genuine), Err(Error::Index { .. })));
        assert!(matches!(client.recon(), Err(Error::Phase(_))));
        assert_eq!(client.verify(0, &genuine), Ok(Verdict::Genuine));
        assert_eq!(client.recon().unwrap(), expected(&database, &[index, (index + 7) % 40]));
    }
}

/// The same state with the same lookup pending.
fn client_like(client: &Client, database: &Database<Merkle>) -> Client {
    let mut like = self::client(database, 2, 4);
    like.resume(&client.pending_bytes().unwrap()).unwrap();
    like
}

#[test]
fn a_large_stored_form_is_read_in_steps_and_nothing_is_there_before_its_end() {
    // 2.4 MB of tags, and more than a MiB of pairs.
    let database = server(Layout::new(1 << 18, 64, 8, 1 << 15).unwrap(), 8);
    let layout = *database.layout();
    let mut client = client(&database, 10_000, 9);
    look_up(&database, &mut client, &[5, 262_143], &[1; 32]);
    let stored = client.encode(&BINDING).unwrap();
    let whole = Form::from(&stored);
    let mut steps = 0;
    let mut reading = Reopening::new(&whole, layout, &BINDING).unwrap();
    while reading.step(&whole).unwrap() {
        steps += 1;
        let mut early = Reopening::new(&whole, layout, &BINDING).unwrap();
        for _ in 0..steps {
            early.step(&whole).unwrap();
        }
        assert!(matches!(early.finish().err(), Some(Error::Phase(_))), "after {steps} steps");
    }
    assert!(steps >= stored.len() >> 20, "{steps} steps");
    assert_eq!(reading.finish().unwrap().encode(&BINDING).unwrap(), stored);
    // Another whole form of the same hint does not continue it.
    look_up(&database, &mut client, &[6], &[2; 32]);
    let later = client.encode(&BINDING).unwrap();
    let mut reading = Reopening::new(&whole, layout, &BINDING).unwrap();
    assert!(reading.step(&whole).unwrap());
    assert!(matches!(reading.step(&Form::from(&later)), Err(Error::State(_))));
}

/// All stored forms of a small client: half-made; whole before its lookup; that lookup, its effect, and whole after it.
struct Stored {
    database: Database<Merkle>,
    layout: Layout,
    hashes: Vec<u8>,
    partial: Vec<u8>,
    before: Vec<u8>,
    pending: Vec<u8>,
    effect: Vec<u8>,
    checkpoint: Vec<u8>,
}

impl Stored {
    fn new() -> Self {
        let database = server(Layout::new(40, 3, 2, 20).unwrap(), 6);
        let (layout, hashes) = (*database.layout(), database.content_hashes().unwrap());
        let mut half = builder(&database, 3, 4);
        assert!(keep(&mut half, 0, 1, database.partition(1).unwrap()));
        let partial = half.encode(&BINDING).unwrap();
        let mut client = client(&database, 3, 4);
        let before = client.encode(&BINDING).unwrap();
        client.query(&[3, 4], &[0; 32]).unwrap();
        let pending = client.pending_bytes().unwrap();
        assert_eq!(client.verify(0, &ask(&database, &client)), Ok(Verdict::Genuine));
        client.recon().unwrap();
        let effect = client.take_effect().unwrap();
        let checkpoint = client.encode(&BINDING).unwrap();
        Stored { database, layout, hashes, partial, before, pending, effect, checkpoint }
    }
}

#[test]
fn stored_bytes_are_used_whole_or_not_at_all() {
    let Stored { layout, hashes, before, partial, pending, effect, checkpoint, .. } = Stored::new();
    assert!(matches!(Hint::decode(&checkpoint, layout, &[8; 32]).err(), Some(Error::State(_))));
    assert!(matches!(Builder::decode(&partial, layout, &hashes, &[8; 32]).err(), Some(Error::State(_))));
    let is_refused = |error: Option<Error>| matches!(error, Some(Error::State(_)));
    let resume = |bytes: &[u8]| Asked::<Merkle, _>::new(before_of(&before)).resume(bytes).err();
    let replay = |bytes: &[u8]| Asked::<Merkle, _>::new(before_of(&before)).replay(bytes).err();
    let shorter = |form: &[u8]| (0..form.len() - 16).map(|end| sealed(&form[..end])).collect::<Vec<_>>();
    for bytes in torn(&pending).chain(shorter(&pending)) {
        assert!(is_refused(resume(&bytes)), "{bytes:?}");
    }
    for bytes in torn(&effect).chain(shorter(&effect)) {
        assert!(is_refused(replay(&bytes)), "{bytes:?}");
    }
    for (form, is_partial) in [(&checkpoint, false), (&partial, true)] {
        for bytes in torn(form).step_by(form.len() / 100 + 1) {
            let error = if is_partial {
                Builder::decode(&bytes, layout, &hashes, &BINDING).err()
            } else {
                Hint::decode(&bytes, layout, &BINDING).err()
            };
            assert!(is_refused(error), "{bytes:?}");
        }
    }
}

/// Reads a stored form, and goes on with it.
type Read<'a> = &'a dyn Fn(&[u8]);

/// Behind a right checksum, bad bytes are refused or can be gone on with: nothing panics, and nothing reads beyond the end.
#[test]
fn stored_bytes_with_the_right_checksum_are_refused_or_can_be_used() {
    let Stored { database, layout, hashes, before, partial, pending, effect, .. } = Stored::new();
    let go_on = |client: &mut Client| {
        if client.pending() == 0 && client.query(&[7, 8], &[1; 32]).is_err() {
            return;
        }
        // With forged hints, queries may be malformed. Only the user could have forged them, on their own machine.
        let reply = answer(SUITE, &database, &client.request(0).unwrap(), At::Newest);
        if reply.is_ok_and(|reply| client.verify(0, &reply) == Ok(Verdict::Genuine)) {
            let _ = client.recon();
        }
    };
    let forms: [(&[u8], Read<'_>); 4] = [
        (&before, &|bytes| {
            if let Ok(hint) = Hint::decode(bytes, layout, &BINDING) {
                go_on(&mut Asked::new(hint));
            }
        }),
        (&partial, &|bytes| {
            if let Ok(mut builder) = Builder::decode(bytes, layout, &hashes, &BINDING)
                && !builder.is_folded(0).unwrap()
            {
                keep(&mut builder, 0, 0, database.partition(0).unwrap());
                if let Ok(hint) = builder.finish_at(0).map_err(|_| ()) {
                    go_on(&mut Asked::new(hint));
                }
            }
        }),
        (&pending, &|bytes| {
            let mut client = Asked::new(before_of(&before));
            if client.resume(bytes).is_ok() {
                go_on(&mut client);
            }
        }),
        (&effect, &|bytes| {
            let mut client = Asked::new(before_of(&before));
            if client.replay(bytes).is_ok() {
                go_on(&mut client);
            }
        }),
    ];
    for (form, read) in forms {
        for at in (0..form.len() - 16).filter(|at| *at < 400 || at % 97 == 0) {
            for change in [1, 0x80, 0xff] {
                read(&resealed(form, at, &[form[at] ^ change]));
            }
        }
    }
}

fn before_of(stored: &[u8]) -> Hint {
    Hint::decode(stored, Layout::new(40, 3, 2, 20).unwrap(), &BINDING).unwrap()
}

#[test]
fn a_server_answers_queries_and_refuses_what_is_none() {
    let database = server(Layout::new(40, 3, 2, 20).unwrap(), 6);
    let mut client = client(&database, 3, 4);
    client.query(&[7], &[1; 32]).unwrap();
    let query = client.request(0).unwrap();
    let refused = |query: &[u8]| answer(SUITE, &database, query, At::Newest).err();
    assert_eq!(refused(&query), None);
    assert!(suites(&database).contains(&SUITE));
    assert!(matches!(refused(&query[1..]), Some(Error::Length { .. })));
    assert!(matches!(refused(&[]), Some(Error::Length { .. })));
    for byte in 0..query.len() {
        let mut bad = query.clone();
        bad[byte] ^= 0x80;
        assert!(matches!(refused(&bad), Some(Error::Query(_))), "byte {byte}: no half, or beyond a stripe");
    }
    let geometry = Geometry::of(database.layout()).unwrap();
    assert_eq!(query.len(), geometry.query_bytes());
    let large = Layout::new(1 << 15, 65_536, 512, 64).unwrap();
    assert!(matches!(Geometry::of(&large), Err(Error::Layout(_))), "a gigabyte would be read for a query");
}

// ---- lookups of which a query uses the slot that the one before it has filled -----------------------------------

fn reused() -> Database<Merkle> {
    server(Layout::new(700, 3, 2, 350).unwrap(), 6)
}

/// The answer comes after the database has changed and the client was restarted. A lie is refused, whichever parity is wrong.
#[test]
fn a_lie_about_a_slot_that_its_own_lookup_has_filled_is_refused_across_an_update_and_a_restart() {
    for index in [0, 17, 349, 699] {
        let mut database = reused();
        let mut client = client(&database, 6, 5);
        let stored = client.encode(&BINDING).unwrap();
        // The second query uses what the first has left, and the third what the second has left.
        let indices = [index, index, (index + 7) % 700, index];
        client.query(&indices, &[index as u8; 32]).unwrap();
        let (pending, request) = (client.pending_bytes().unwrap(), client.request(0).unwrap());
        // Asks for the record, and for another of its stripe.
        let stripe = index - index % 16;
        let list = edit(&mut database, (stripe..stripe + 12).chain([index, (index + 7) % 700]), 0xab);
        let moved_on = || {
            let mut again: Client = Asked::new(Hint::decode(&stored, *database.layout(), &BINDING).unwrap());
            again.resume(&pending).unwrap();
            follow(&mut again, &database, &list);
            assert_eq!(again.request(0).unwrap(), request);
            again
        };
        let genuine = ask(&database, &client);
        for byte in 0..genuine.len() {
            let mut reply = genuine.clone();
            reply[byte] ^= 1 << (byte % 8);
            assert_eq!(moved_on().verify(0, &reply), Ok(Verdict::Forged), "index {index}, byte {byte}");
        }
        // The same difference in both parities, or in two queries, does not cancel out.
        for (one, other) in [(0, 3), (3, 6), (0, 6), (1, 19)] {
            let mut reply = genuine.clone();
            reply[one] ^= 0x40;
            reply[other] ^= 0x40;
            assert_eq!(moved_on().verify(0, &reply), Ok(Verdict::Forged));
        }
        let mut client = moved_on();
        assert_eq!(client.verify(0, &genuine), Ok(Verdict::Genuine));
        assert_eq!((client.recon().unwrap(), client.missed()), (expected(&database, &indices), 0));
        assert_agrees(&mut client.state, &database);
    }
}

/// A hint or backup shown twice would have the same offsets in all but a few of the 44 stripes. Other hints agree in about three of
/// them: one in 16.
#[test]
fn nothing_is_shown_twice_whatever_is_asked_between_updates_and_restarts() {
    let mut database = reused();
    let mut client = client(&database, 240, 5);
    let mut shown: Vec<Vec<u8>> = Vec::new();
    for round in 0..60u32 {
        let indices = [round % 3, 5, round * 11, 5];
        client.query(&indices, &[round as u8; 32]).unwrap();
        if round % 4 == 1 {
            let list = edit(&mut database, [round], round as u8);
            follow(&mut client, &database, &list);
        }
        let request = client.request(0).unwrap();
        let reply = ask(&database, &client);
        assert_eq!(client.verify(0, &reply), Ok(Verdict::Genuine));
        client.recon().unwrap();
        let (each, stripes) = (client.state.geometry().query_bytes(), client.state.geometry().stripes());
        assert_eq!((stripes, client.state.geometry().stripe_records()), (44, 16));
        for query in request.chunks_exact(each) {
            let offsets: Vec<u8> = query[each - 2 * stripes..].chunks_exact(2).map(|offset| offset[0]).collect();
            for before in &shown {
                let equal = before.iter().zip(&offsets).filter(|(one, other)| one == other).count();
                assert!(equal < 22, "round {round}: {equal}");
            }
            shown.push(offsets);
        }
        if round % 5 == 0 {
            client = reopened(&mut client);
        }
    }
    assert_eq!(client.state.left(), 0);
}
