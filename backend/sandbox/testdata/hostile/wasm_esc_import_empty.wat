;; class: compile
(module
  (import "" "" (func))
  (memory (export "memory") 1)
  (func (export "execute") ))
