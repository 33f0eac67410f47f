;; Gives back what came on standard input, and says so on standard error.
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 80)
  (data (i32.const 64) "echoing\n")
  (func (export "execute") (local $n i32)
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const 8))
    (drop (call $write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16)))
    (block $done
      (loop $more
        (i32.store (i32.const 0) (i32.add (i32.const 1024) (local.get $n)))
        (i32.store (i32.const 4) (i32.const 65536))
        (br_if $done (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))
        (br_if $done (i32.eqz (i32.load (i32.const 16))))
        (local.set $n (i32.add (local.get $n) (i32.load (i32.const 16))))
        (br $more)))
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (local.get $n))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))
