"""What happened since somebody was last there, as a digest."""
