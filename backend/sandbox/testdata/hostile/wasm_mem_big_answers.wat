;; class: cpu host_denied memory trap timeout
;; host: big
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "{\"op\":\"fs.readText\",\"path\":\"/x\"}")
  (func (export "execute") (loop $l (drop (call $call (i32.const 100) (i32.const 34))) (drop (call $read (i32.const 0) (i32.const -1))) (br $l))))
