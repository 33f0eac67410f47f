;; class: compile
(module
  (memory (export "memory") 1)
  (func (export "helix:stop"))
  (func (export "execute") ))
