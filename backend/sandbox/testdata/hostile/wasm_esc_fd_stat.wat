;; class: ok
(module
  (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $a (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get" (func $b (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $c (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_set_size" (func $d (param i32 i64) (result i32)))
  (import "wasi_snapshot_preview1" "fd_allocate" (func $e (param i32 i64 i64) (result i32)))
  (import "wasi_snapshot_preview1" "fd_fdstat_set_flags" (func $f (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir" (func $g (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (local i32) (loop $l (drop (call $a (local.get 0) (i32.const 200))) (drop (call $b (local.get 0) (i32.const 200))) (drop (call $c (local.get 0) (i64.const -1) (i32.const 1) (i32.const 200))) (drop (call $d (local.get 0) (i64.const -1))) (drop (call $e (local.get 0) (i64.const -1) (i64.const -1))) (drop (call $f (local.get 0) (i32.const 65535))) (drop (call $g (local.get 0) (i32.const 300) (i32.const 1000) (i64.const -1) (i32.const 200))) (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 16)))) (call $done)))
