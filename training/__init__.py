"""The commands that train the models that ship with Backscroll."""
