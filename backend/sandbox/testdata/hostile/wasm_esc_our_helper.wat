;; class: compile
;; flags: --no-check
(module
  (memory (export "memory") 1)
  (func (export "execute") (call 1)))
