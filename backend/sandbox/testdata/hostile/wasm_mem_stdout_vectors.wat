;; class: output trap
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 800)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (local i32) (loop $l (i32.store (local.get 0) (i32.const 0)) (i32.store offset=4 (local.get 0) (i32.const 0x1000000)) (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 8))) (i32.const 800000)))) (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 100000) (i32.const 0x1000000)))))
