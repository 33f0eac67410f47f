;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") unreachable))
