;; class: trap
(module
  (memory (export "memory") 1)
  (func $s unreachable) (start $s)
  (func (export "execute") ))
