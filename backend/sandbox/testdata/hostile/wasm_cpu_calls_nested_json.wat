;; class: cpu host_denied trap
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 512)
  (func (export "execute") (memory.fill (i32.const 0) (i32.const 91) (i32.const 0x2000000)) (loop $l (drop (call $call (i32.const 0) (i32.const 0x2000000))) (br $l))))
