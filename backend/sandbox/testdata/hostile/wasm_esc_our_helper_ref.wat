;; class: compile
;; flags: --no-check
(module
  (memory (export "memory") 1)
  (elem declare func 1)
  (func (export "execute") (drop (ref.func 1))))
