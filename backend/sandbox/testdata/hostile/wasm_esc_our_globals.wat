;; class: compile
;; flags: --no-check
(module
  (memory (export "memory") 1)
  (global (mut i32) (i32.const 0))
  (func (export "execute") (global.set 1 (i64.const -1)) (global.set 3 (i32.const 0)) (loop $l (br $l))))
