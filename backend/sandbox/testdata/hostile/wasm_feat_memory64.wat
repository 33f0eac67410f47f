;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") i64 1)
  (func (export "execute") ))
