;; class: cpu host_denied memory timeout trap
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 800)
  (func (export "execute") (memory.fill (i32.const 0) (i32.const 120) (i32.const 0x3000000)) (i64.store (i32.const 0) (i64.const 0x2022706f22203a7b)) (loop $l (drop (call $call (i32.const 0) (i32.const 0x3000000))) (br $l))))
