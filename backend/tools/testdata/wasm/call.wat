;; Passes its input to helix.call as the request and gives back the answer, or the error.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $answer (param i32 i32) (result i32)))
  (memory (export "memory") 200)
  (func (export "execute") (local $n i32) (local $got i32)
    (block $done
      (loop $more
        (i32.store (i32.const 0) (i32.add (i32.const 1024) (local.get $n)))
        (i32.store (i32.const 4) (i32.const 65536))
        (br_if $done (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
        (br_if $done (i32.eqz (i32.load (i32.const 16))))
        (local.set $n (i32.add (local.get $n) (i32.load (i32.const 16))))
        (br $more)))
    (local.set $got (call $call (i32.const 1024) (local.get $n)))
    (if (i32.lt_s (local.get $got) (i32.const 0))
      (then (local.set $got (i32.sub (i32.const 0) (local.get $got)))))
    (drop (call $answer (i32.const 1024) (local.get $got)))
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (local.get $got))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))
