;; Needs 100 MiB from the start.
(module
  (memory (export "memory") 1600)
  (func (export "execute")))
