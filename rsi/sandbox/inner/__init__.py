"""The programs that run inside the room, on the room's own Python: standard library only, relative imports only."""
