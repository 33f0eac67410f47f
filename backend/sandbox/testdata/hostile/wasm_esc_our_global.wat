;; class: compile
;; flags: --no-check
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (global.set 0 (i64.const 9223372036854775807)) (br $l))))
