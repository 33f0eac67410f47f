;; Never ends.
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $again (br $again))))
