"""The commands: ``lmzoo NAME`` calls ``main`` of the module NAME. Nothing is imported here, as imports are slow."""
