;; Imports what no module may have.
(module
  (import "env" "system" (func $system (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "execute") (drop (call $system (i32.const 0)))))
