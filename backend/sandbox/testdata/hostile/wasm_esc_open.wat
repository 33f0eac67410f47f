;; class: ok
(module
  (import "wasi_snapshot_preview1" "path_open" (func $o (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (data (i32.const 100) "/etc/passwd")
  (func (export "execute") (local i32) (loop $l (if (i32.eqz (call $o (local.get 0) (i32.const 1) (i32.const 100) (i32.const 11) (i32.const 0) (i64.const -1) (i64.const -1) (i32.const 0) (i32.const 200))) (then unreachable)) (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 20)))) (call $done)))
