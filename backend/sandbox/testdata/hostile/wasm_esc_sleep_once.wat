;; class: timeout ok output
;; wall: 400ms
;; within: 1500ms
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $p (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "execute") (i64.store (i32.const 24) (i64.const 3600000000000)) (drop (call $p (i32.const 0) (i32.const 4096) (i32.const 1) (i32.const 60000)))))
