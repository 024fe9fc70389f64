"""Absences: does a catch-up tell readers who were away what they need?"""
