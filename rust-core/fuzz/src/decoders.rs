//! A function for each decoder, which runs it on any bytes, with a small fixed database and its hints. `core/tests/corpora.rs`
//! runs them on the corpora, and `npm run fuzz` on libFuzzer's inputs. Stored forms end with a checksum. It is added here, so
//! that the code behind it is reached.

use std::sync::OnceLock;

use keyhush_core::commitment::{Merkle, Proofs};
use keyhush_core::cost::{Plan, Workload};
use keyhush_core::database::epoch::{Operation, apply};
use keyhush_core::database::flat::{At, Database};
use keyhush_core::database::list::UpdateList;
use keyhush_core::directory::Directory;
use keyhush_core::layout::Layout;
use keyhush_core::one_server::client::Query;
use keyhush_core::one_server::prepare::Preparing;
use keyhush_core::one_server::server::Prepared;
use keyhush_core::one_server::{Context, Of, Shape};
use keyhush_core::random::ChaCha;
use keyhush_core::single;
use keyhush_core::stored::{HintUpdate, update_in};
use keyhush_core::suites;
use keyhush_core::tapir::hint::{Hint, HintBuilder};
use keyhush_core::tapir::query::{Pending, Role, query};
use keyhush_core::tapir::recon::{Effect, recon, replay, verify};
use keyhush_core::tapir::state::journal;

/// Runs a decoder on any bytes.
pub type Decoder = fn(&[u8]);

/// All decoders, by the names of their corpora.
pub const DECODERS: [(&str, Decoder); 17] = [
    ("answer", answer),
    ("checkpoint", checkpoint),
    ("directory", directory),
    ("effect", effect),
    ("journal", journal_entry),
    ("layout", layout),
    ("one_server_answer", one_server_answer),
    ("one_server_hint", one_server_hint),
    ("one_server_query", one_server_query),
    ("partial", partial),
    ("pending", pending),
    ("single_checkpoint", single_checkpoint),
    ("single_effect", single_effect),
    ("single_partial", single_partial),
    ("single_pending", single_pending),
    ("update_list", update_list),
    ("vectors", vectors),
];

/// Runs the decoder of this name.
///
/// # Panics
/// If there is no such decoder.
pub fn run(name: &str, data: &[u8]) {
    let (_, decoder) = DECODERS.iter().find(|(known, _)| *known == name).expect("a decoder");
    decoder(data);
}

/// Whether a decoder accepts these bytes. `answer`, `vectors` and those of one server accept all: they do their own checks.
#[must_use]
pub fn accepts(name: &str, data: &[u8]) -> bool {
    let world = World::get();
    let rest = || sealed(data.get(1..).unwrap_or_default());
    let hint = || world.hint(choice(data).map_or(0, |(kind, _)| kind));
    match name {
        "checkpoint" => Hint::decode(&sealed(data), world.layout, &world.commitments, &BINDING).is_ok(),
        "directory" => Directory::decode(data, 100).is_ok(),
        "effect" => Effect::decode(&rest(), &world.layout).is_ok(),
        "journal" => journal::replay(&mut hint(), &rest()).is_ok(),
        "partial" => {
            HintBuilder::decode(&sealed(data), world.layout, &world.commitments, &world.content_hashes, &BINDING)
                .is_ok()
        }
        "pending" => Pending::decode(&rest(), &hint()).is_ok(),
        "single_checkpoint" => single::hint::Hint::decode(&sealed(data), world.layout, &BINDING).is_ok(),
        "single_effect" => single::recon::Effect::decode(&sealed(data), &world.layout).is_ok(),
        "single_partial" => {
            single::making::Builder::decode(&sealed(data), world.layout, &world.content_hashes, &BINDING).is_ok()
        }
        "single_pending" => single::query::Pending::decode(&sealed(data), &world.single_hint()).is_ok(),
        "update_list" => UpdateList::decode(data, world.layout, grown()).is_ok(),
        _ => true,
    }
}

/// Valid bytes for each decoder, to start from.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let world = World::get();
    let body = |stored: &[u8]| stored[..stored.len() - 16].to_vec();
    let prints: Vec<u8> = (0..40).flat_map(|i: u8| blake3::hash(&[i]).as_bytes()[..16].to_vec()).collect();
    let mut seeds = vec![
        ("directory", Directory::build(&prints, 100).expect("a directory").encode()),
        ("layout", [1_000_000, 32, 16, 62_500].iter().flat_map(|number: &u64| number.to_le_bytes()).collect()),
    ];
    let batch = [Operation::Add(&[9; 4]), Operation::Add(&[8; 4]), Operation::EditIndex(3, &[7; 4])];
    let Ok(epoch) = apply(&mut World::new().database, None, &batch) else { panic!("a batch that can be") };
    seeds.push(("update_list", epoch.list.bytes().to_vec()));
    for (kind, proofs) in KINDS.into_iter().enumerate() {
        let chosen = |bytes: &[u8]| [&[kind as u8], bytes].concat();
        let mut hint = world.hint(kind);
        seeds.push(("checkpoint", body(&world.checkpoints[kind])));
        let list = UpdateList::decode(epoch.list.bytes(), world.layout, grown()).expect("a list");
        let update = HintUpdate::new(&world.hint(kind), list, &[5; 32]).encode();
        seeds.push(("journal", chosen(&body(&update))));
        seeds.push(("partial", body(&world.builder(kind).encode(&BINDING))));
        let mut pending = query(&mut hint, &[7, 3], &[3; 32]).expect("a lookup");
        seeds.push(("pending", chosen(&body(&pending.encode(&world.layout)))));
        for role in [Role::Retrieve, Role::Refresh] {
            let vectors = pending.vectors(role);
            let answer = world.database.answer(&vectors, proofs).expect("an answer");
            assert!(verify::<Merkle>(&mut hint, &mut pending, role, &answer).expect("evaluated"));
            seeds.push(("vectors", chosen(&vectors)));
        }
        let Ok(recovered) = recon(&mut hint, pending) else { panic!("verified answers") };
        let effect = chosen(&body(&recovered.effect.encode(&world.layout)));
        seeds.push(("effect", effect.clone()));
        seeds.push(("journal", effect));
        seeds.push(("answer", chosen(&world.reply(kind))));
    }
    let drawing = World::begin_single(world.layout, &world.content_hashes).encode(&BINDING).expect("memory");
    seeds.push(("single_partial", body(&drawing)));
    let half = World::fold_single(world.layout, &world.content_hashes, &world.database, 2).encode(&BINDING);
    seeds.push(("single_partial", body(&half.expect("memory"))));
    let mut hint = world.single_hint();
    seeds.push(("single_checkpoint", body(&world.single_checkpoint)));
    let mut pending = single::query::query(&mut hint, &[7, 3], &[3; 32]).expect("a lookup");
    seeds.push(("single_pending", body(&pending.encode(&world.layout))));
    let answer = world.single_answer(pending.queries()).expect("an answer");
    assert!(single::recon::verify(&mut hint, &mut pending, &answer).expect("evaluated"));
    let Ok(recovered) = single::recon::recon(&mut hint, pending) else { panic!("verified answers") };
    seeds.push(("single_effect", body(&recovered.effect.encode(&world.layout))));
    seeds.push(("single_checkpoint", body(&hint.encode(&BINDING).expect("not condemned"))));
    let one = OneServer::get();
    seeds.push(("one_server_answer", one.answer.clone()));
    seeds.push(("one_server_hint", one.database.hint().to_vec()));
    seeds.push(("one_server_query", OneServer::query().request().to_vec()));
    seeds
}

/// The layout after an update.
fn grown() -> Layout {
    Layout::new(12, 4, 3, 4).expect("a layout")
}

const BINDING: [u8; 32] = [0xb1; 32];
const KINDS: [Proofs; 2] = [Proofs::Openings, Proofs::Tags];

/// N = 10, ℓ = 4, Q = 3, M = 4.
struct World {
    layout: Layout,
    database: Database<Merkle>,
    commitments: Vec<u8>,
    content_hashes: Vec<u8>,
    /// stored hints of both kinds
    checkpoints: [Vec<u8>; 2],
    /// stored hints for one server
    single_checkpoint: Vec<u8>,
}

impl World {
    fn get() -> &'static Self {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(Self::new)
    }

    fn new() -> Self {
        let layout = Layout::new(10, 4, 3, 4).expect("a layout");
        let mut database = Database::<Merkle>::new(layout).expect("memory");
        ChaCha::new(&[1; 32], 7).fill(&mut database.records_mut()[..40]);
        (0..3).for_each(|q| database.commit(q).expect("a partition"));
        let commitments: Vec<u8> = (0..3).flat_map(|q| database.commitment(q).expect("committed")).collect();
        let content_hashes: Vec<u8> = (0..3).flat_map(|q| database.content_hash(q).expect("committed")).collect();
        let Ok(mut single) = Self::fold_single(layout, &content_hashes, &database, 3).finish_at(0) else {
            panic!("all is folded")
        };
        let single_checkpoint = single.encode(&BINDING).expect("hints that are not condemned");
        let checkpoints = Default::default();
        let mut world = World { layout, database, commitments, content_hashes, checkpoints, single_checkpoint };
        for kind in 0..KINDS.len() {
            let Ok(hint) = world.builder(kind).finish() else { panic!("all is folded") };
            world.checkpoints[kind] = hint.encode(&BINDING).expect("a hint that is not condemned");
        }
        world
    }

    /// A builder with all partitions folded.
    fn builder(&self, kind: usize) -> HintBuilder {
        let mut builder = HintBuilder::new(self.layout, KINDS[kind], &self.commitments, &self.content_hashes, [2; 32])
            .expect("a builder");
        for q in 0..self.layout.partitions() {
            builder.begin(0, q).expect("a partition");
            let bytes = self.database.partition(q).expect("a partition");
            builder.lane_bytes(0).expect("a lane").copy_from_slice(bytes);
            builder.absorb(0, bytes.len()).expect("all of it");
            assert!(builder.fold(0).expect("whole"));
        }
        builder
    }

    fn begin_single(layout: Layout, content_hashes: &[u8]) -> single::making::Builder {
        single::making::Builder::new(layout, content_hashes, 4, [2; 32]).expect("a builder")
    }

    /// A builder with the first `partitions` partitions folded.
    fn fold_single(
        layout: Layout,
        content_hashes: &[u8],
        database: &Database<Merkle>,
        partitions: usize,
    ) -> single::making::Builder {
        let mut builder = Self::begin_single(layout, content_hashes);
        for q in 0..partitions {
            builder.begin(0, q).expect("a partition");
            let bytes = database.partition(q).expect("a partition");
            builder.lane_bytes(0).expect("a lane").copy_from_slice(bytes);
            builder.absorb(0, bytes.len()).expect("all of it");
            assert!(builder.keep(0).expect("whole"));
        }
        builder
    }

    fn single_hint(&self) -> single::hint::Hint {
        single::hint::Hint::decode(&self.single_checkpoint, self.layout, &BINDING).expect("stored hints")
    }

    fn single_answer(&self, queries: &[u8]) -> Result<Vec<u8>, keyhush_core::Error> {
        suites::answer(3, &self.database, queries, At::Newest)
    }

    /// The lookup to which `answer` is a reply, and its hint.
    fn asked(&self, kind: usize) -> (Hint, Pending) {
        let mut hint = self.hint(kind);
        let pending = query(&mut hint, &[7], &[3; 32]).expect("a lookup");
        (hint, pending)
    }

    fn reply(&self, kind: usize) -> Vec<u8> {
        self.database.answer(&self.asked(kind).1.vectors(Role::Retrieve), KINDS[kind]).expect("an answer")
    }

    fn hint(&self, kind: usize) -> Hint {
        Hint::decode(&self.checkpoints[kind], self.layout, &self.commitments, &BINDING).expect("a stored hint")
    }
}

/// N = 150, ℓ = 16, over a small ring, and a lookup of two records.
struct OneServer {
    database: Prepared,
    /// the records that are asked for
    records: Vec<u8>,
    answer: Vec<u8>,
}

impl OneServer {
    const CONTEXT: Context = Context { database_id: [5; 16], generation: 3, of: Of::Records };
    const INDICES: [u32; 2] = [149, 7];

    fn get() -> &'static Self {
        static ONE: OnceLock<OneServer> = OnceLock::new();
        ONE.get_or_init(|| {
            let mut data = vec![0; 150 * 16];
            ChaCha::new(&[1; 32], 8).fill(&mut data);
            let mut preparing = Preparing::new(Self::shape(), Self::CONTEXT, 0).expect("memory");
            preparing.put(&data).expect("records");
            while preparing.step().expect("all records") {}
            let database = preparing.finish().expect("prepared");
            let answer = database.answer(Self::query().request()).expect("an answer");
            let records = Self::INDICES.iter().flat_map(|&index| data[index as usize * 16..][..16].to_vec()).collect();
            OneServer { database, records, answer }
        })
    }

    fn shape() -> Shape {
        Shape::of_degree(64, 150, 16).expect("a shape")
    }

    fn query() -> Query {
        Query::new(Self::shape(), Self::CONTEXT, &[8; 32], &Self::INDICES, &[3; 32]).expect("a query")
    }
}

/// Uses the first byte to choose a kind of hint. Returns it and the rest.
fn choice(data: &[u8]) -> Option<(usize, &[u8])> {
    data.split_first().map(|(&first, rest)| (usize::from(first) % KINDS.len(), rest))
}

/// Adds the checksum of stored forms.
fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &blake3::hash(body).as_bytes()[..16]].concat()
}

fn assert_same(written: &[u8], read: &[u8]) {
    assert!(written == read, "what was accepted is written otherwise");
}

fn directory(data: &[u8]) {
    let records = 1 + data.iter().fold(0, |sum, &byte| (sum + u32::from(byte)) % 100);
    for records in [records, u32::MAX] {
        let Ok(directory) = Directory::decode(data, records) else { continue };
        assert_same(&directory.encode(), data);
        for key in [[0; 16], [0xff; 16], *blake3::hash(data).as_bytes().first_chunk().expect("16 of 32 bytes")] {
            assert!(directory.index(&key, records).expect("within the database") < records);
        }
    }
}

fn update_list(data: &[u8]) {
    let world = World::get();
    if let Ok(list) = UpdateList::read(data) {
        assert_same(list.bytes(), data);
    }
    for (records, partitions) in [(10, 3), (12, 3), (13, 4)] {
        let after = Layout::new(records, 4, partitions, 4).expect("a layout");
        let Ok(list) = UpdateList::decode(data, world.layout, after) else { continue };
        assert_same(list.bytes(), data);
        assert!(list.entries().all(|entry| (entry.index as usize) < after.records()));
    }
}

fn checkpoint(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(hint) = Hint::decode(&stored, world.layout, &world.commitments, &BINDING) {
        assert_same(&hint.encode(&BINDING).expect("not condemned"), &stored);
    }
}

fn partial(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(builder) = HintBuilder::decode(&stored, world.layout, &world.commitments, &world.content_hashes, &BINDING)
    {
        assert_same(&builder.encode(&BINDING), &stored);
    }
}

fn pending(data: &[u8]) {
    let Some((kind, data)) = choice(data) else { return };
    let (world, stored) = (World::get(), sealed(data));
    let hint = world.hint(kind);
    if let Ok(pending) = Pending::decode(&stored, &hint) {
        assert_same(&pending.encode(&world.layout), &stored);
        for role in [Role::Retrieve, Role::Refresh] {
            world.database.answer(&pending.vectors(role), KINDS[kind]).expect("vectors within the database");
        }
    }
}

fn effect(data: &[u8]) {
    let Some((kind, data)) = choice(data) else { return };
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(effect) = Effect::decode(&stored, &world.layout) {
        assert_same(&effect.encode(&world.layout), &stored);
        let _ = replay(&mut world.hint(kind), &effect);
    }
}

fn single_checkpoint(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(mut hint) = single::hint::Hint::decode(&stored, world.layout, &BINDING) {
        assert_same(&hint.encode(&BINDING).expect("not condemned"), &stored);
    }
}

fn single_partial(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(mut builder) = single::making::Builder::decode(&stored, world.layout, &world.content_hashes, &BINDING) {
        assert_same(&builder.encode(&BINDING).expect("memory"), &stored);
    }
}

fn single_pending(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(pending) = single::query::Pending::decode(&stored, &world.single_hint()) {
        assert_same(&pending.encode(&world.layout), &stored);
        let _ = world.single_answer(pending.queries());
    }
}

fn single_effect(data: &[u8]) {
    let (world, stored) = (World::get(), sealed(data));
    if let Ok(effect) = single::recon::Effect::decode(&stored, &world.layout) {
        assert_same(&effect.encode(&world.layout), &stored);
        let _ = single::recon::replay(&mut world.single_hint(), &effect);
    }
}

fn journal_entry(data: &[u8]) {
    let Some((kind, data)) = choice(data) else { return };
    let (world, stored) = (World::get(), sealed(data));
    let _ = update_in(&stored, &world.layout);
    let _ = journal::replay(&mut world.hint(kind), &stored);
}

/// A server's reply to a real lookup.
fn answer(data: &[u8]) {
    let Some((kind, data)) = choice(data) else { return };
    let world = World::get();
    let (mut hint, mut pending) = world.asked(kind);
    let genuine = world.reply(kind);
    match verify::<Merkle>(&mut hint, &mut pending, Role::Retrieve, data) {
        Ok(true) => assert_same(&genuine, data),
        Ok(false) => assert!(hint.is_condemned()),
        Err(_) => assert!(!hint.is_condemned() && data.len() != genuine.len()),
    }
}

/// A client's request.
fn vectors(data: &[u8]) {
    let Some((kind, data)) = choice(data) else { return };
    let world = World::get();
    let entry = KINDS[kind].entry_bytes::<Merkle>(&world.layout);
    if let Ok(answer) = world.database.answer(data, KINDS[kind]) {
        assert_eq!(answer.len(), data.len() / 2 * entry);
    }
}

/// What one server answers to a real query. Whatever is accepted brings the right records, and no second answer is decoded.
fn one_server_answer(data: &[u8]) {
    let one = OneServer::get();
    let mut query = OneServer::query();
    match query.decode(one.database.hint(), data) {
        Ok(Some(records)) => assert!(*records == *one.records, "a forged answer was accepted"),
        Ok(None) => assert!(*data != *one.answer, "the genuine answer was refused"),
        Err(_) => assert!(data.len() != one.answer.len()),
    }
    assert!(query.decode(one.database.hint(), &one.answer).is_ok() == (data.len() != one.answer.len()));
}

/// A hint. Before it is decoded its hash is compared with the manifest's, so a wrong one may bring any records.
fn one_server_hint(data: &[u8]) {
    let one = OneServer::get();
    match OneServer::query().decode(data, &one.answer) {
        Ok(Some(records)) => assert_eq!(records.len(), one.records.len()),
        Ok(None) => assert!(data != one.database.hint(), "the genuine hint was refused"),
        Err(_) => assert!(data.len() != one.database.hint().len()),
    }
}

/// A client's queries for one server. Each is answered by itself.
fn one_server_query(data: &[u8]) {
    let database = &OneServer::get().database;
    let shape = database.shape();
    let (each, most) = (shape.request_bytes(), shape.max_queries());
    let count = data.len() / each;
    let Ok(answers) = database.answer(data) else {
        return assert!(count == 0 || count > most || data.len() != count * each, "queries were refused");
    };
    assert_eq!(answers.len(), count * shape.answer_bytes());
    for (query, answer) in data.chunks_exact(each).zip(answers.chunks_exact(shape.answer_bytes())) {
        assert!(database.answer(query).expect("one query") == answer);
    }
}

/// Reads the numbers of a layout, and of a plan.
fn layout(data: &[u8]) {
    let numbers: Vec<u64> = data.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let &[a, b, c, d, ref rest @ ..] = numbers.as_slice() else { return };
    let g = rest.first().copied().unwrap_or(1);
    let layouts = [
        Layout::packed(a, b, c, d, g),
        Layout::plan_packed(a, b, None, g),
        Layout::plan_packed(a, b, Some(c), g),
        Layout::plan(a, b, None),
    ];
    for layout in layouts.into_iter().flatten() {
        let stored = layout.stored();
        assert!(layout.records() <= layout.partitions() * stored.partition_records);
        assert_eq!(layout.slots() * stored.block_records, layout.partitions() * stored.partition_records);
        assert_eq!(layout.database_bytes(), layout.slots() * layout.record_bytes());
        assert!(layout.locate(layout.records() as u32 - 1).is_ok());
        assert!(layout.slot(layout.records() as u32 - 1).end <= layout.record_bytes());
        assert!(u32::try_from(layout.records()).map_or(true, |beyond| layout.locate(beyond).is_err()));
    }
    let _ = Plan::new(&Workload { partitions: Some(c), pack: g, ..Workload::new(a, b) });
}
