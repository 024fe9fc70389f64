"""The steps of the figure: pure logic without a broker, a network or a disk."""
