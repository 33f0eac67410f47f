;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (br $l))))
