;; class: cpu trap timeout
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $p (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 800)
  (func (export "execute") (loop $l (drop (call $p (i32.const 0) (i32.const 0x1800000) (i32.const 500000) (i32.const 16))) (br $l))))
