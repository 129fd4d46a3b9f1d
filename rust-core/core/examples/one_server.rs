use keyhush_core::one_server::{client::Query, norm::Norm, prepare::Preparing, Context, Of, Shape};
use std::time::Instant;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let shape = Shape::new(a[0], a[1]).unwrap();
    println!("{shape:?} up {} down {} hint {}", shape.request_bytes(), shape.answer_bytes(), shape.hint_bytes());
    let context = Context { database_id: [1; 16], generation: 1, of: Of::Records };
    let mut records = vec![0u8; (a[0] * a[1]) as usize];
    let mut x = 1u64;
    for r in records.iter_mut() { x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); *r = (x >> 56) as u8; }
    if a.len() > 2 { let one = records[..shape.column_records() * a[1] as usize].to_vec(); for c in records.chunks_mut(one.len()) { let n = c.len(); c.copy_from_slice(&one[..n]); } }
    let t = Instant::now();
    let mut p = Preparing::new(shape, context, 0).unwrap();
    p.put(&records).unwrap();
    while p.step().unwrap() {}
    let s = p.finish().unwrap();
    println!("prepare {:?}", t.elapsed());
    let t = Instant::now();
    let mut n = Norm::new(&s);
    let mut last = 0.0;
    while n.step(&s).unwrap() { let l = n.log2(); if (l - last).abs() > 0.0005 { print!("{l:.3} "); } last = l; }
    println!("norm 2^{:.3} hides {} {:?}", n.log2(), n.hides(), t.elapsed());
    for i in 0..5u32 {
        let index = (i * 7919 + 3) % a[0] as u32;
        let t0 = Instant::now();
        let mut q = Query::new(shape, context, &[2; 32], &[index], &[i as u8; 32]).unwrap();
        let t1 = Instant::now();
        let ans = s.answer(q.request()).unwrap();
        let t2 = Instant::now();
        while q.expand() {}
        let t3 = Instant::now();
        let got = q.decode(s.hint(), &ans).unwrap();
        println!("ask {:?} answer {:?} expand {:?} decode {:?} right {}", t1 - t0, t2 - t1, t3 - t2, t3.elapsed(), got.is_some_and(|g| *g == records[index as usize * a[1] as usize..][..a[1] as usize]));
    }
}
