;; class: ok trap host_denied compile
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (data (i32.const 100) "{\"op\":\"state.keys\"}") (func $s (drop (call $call (i32.const 100) (i32.const 19))) (drop (call $read (i32.const 0) (i32.const 4096)))) (start $s)
  (func (export "execute") (call $done)))
