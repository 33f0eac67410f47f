;; class: ok output trap
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $r (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $g (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $t (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (drop (call $r (i32.const 0) (i32.const -8) (i32.const 1) (i32.const 16))) (drop (call $r (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 16))) (drop (call $r (i32.const 0) (i32.const 0) (i32.const 0x20000001) (i32.const -4))) (drop (call $g (i32.const -1) (i32.const -1))) (drop (call $g (i32.const 65535) (i32.const 2))) (drop (call $t (i32.const 99) (i64.const -1) (i32.const -1))) (call $done)))
